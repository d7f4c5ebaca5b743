"use strict";
// Titles of columns become buttons that sort the lines of each group; without a script they are titles.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.querySelectorAll("th[data-column]")];
  for (const head of heads) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      heads.forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
      const value = row => parseFloat(row.cells[head.dataset.column].dataset.v);
      for (const body of table.tBodies) {
        const rows = [...body.rows].filter(row => !row.classList.contains("section"));
        // What has no figure is last either way.
        rows.sort((a, b) => {
          const [x, y] = [value(a), value(b)];
          return isNaN(x) || isNaN(y) ? isNaN(x) - isNaN(y) : sign * (x - y);
        });
        body.append(...rows);
      }
    });
  }
}
