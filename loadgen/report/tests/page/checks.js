// What is in an opened page, and what is wrong with it.
(() => {
  const all = selector => [...document.querySelectorAll(selector)];
  const width = document.documentElement.clientWidth;
  const shown = element => element.checkVisibility() && element.getBoundingClientRect().width > 0;
  const short = element => element.outerHTML.slice(0, 100);
  const sticksOut = element => element.getBoundingClientRect().right > width + 1
    && !element.parentElement.closest(".scroll, pre, svg");

  // Contrast as WCAG 2 defines it.
  const channels = colour => colour.match(/[\d.]+/g).map(Number);
  const luminance = colour => {
    const [r, g, b] = channels(colour).map(value => {
      const part = value / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [x, y] = [luminance(a), luminance(b)];
    return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
  };
  const background = element => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (channels(colour)[3] !== 0) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const ink = element => {
    const style = getComputedStyle(element);
    return element.closest("svg") ? style.fill : style.color;
  };
  const hasText = element => [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
  const texts = all("body *").filter(element => hasText(element) && shown(element)
    && !element.matches("script, style, title, desc"));
  const names = element => (element.getAttribute("aria-labelledby") || "").split(" ")
    .map(id => document.getElementById(id)?.textContent).join("")
    || element.getAttribute("aria-label") || element.querySelector(":scope > title")?.textContent || "";
  const used = all("use").map(use => use.getAttribute("href").slice(1));
  const ids = all("[id]").map(element => element.id);
  return {
    width,
    needed: Math.max(document.documentElement.scrollWidth, document.body.scrollWidth),
    wide: all("body *").filter(sticksOut).map(short),
    pale: texts.filter(element => contrast(ink(element), background(element)) < 4.5)
      .map(element => `${contrast(ink(element), background(element)).toFixed(2)}: ${short(element)}`),
    small: texts.filter(element => parseFloat(getComputedStyle(element).fontSize) < 12).map(short),
    unnamed: all("svg[role=img], [role=region], nav").filter(element => !names(element).trim()).map(short),
    dangling: used.filter(id => !document.getElementById(id)),
    twice: ids.filter((id, at) => ids.indexOf(id) !== at),
    paper: getComputedStyle(document.body).backgroundColor,
    headings: all("h2").map(heading => heading.textContent),
    charts: all("svg[role=img]").filter(svg => svg.getBoundingClientRect().width > 100).length,
    buttons: all("th button").length,
  };
})()
