//! What all charts share: surfaces, colours, lengths and text styles.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// A surface that a chart is drawn on, with its origin at the top left.
pub(super) type Area<DB> = DrawingArea<DB, Shift>;

/// Why a chart could not be drawn. Plotters' own errors borrow from its back ends, so they are
/// stored as text.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct DrawError(pub(super) String);

pub(super) fn failed(error: impl std::fmt::Display) -> DrawError {
    DrawError(error.to_string())
}

/// Colours that colour-blind readers can distinguish (Okabe and Ito, 2008).
pub(super) const PALETTE: [RGBColor; 6] = [
    RGBColor(0x00, 0x72, 0xB2),
    RGBColor(0xD5, 0x5E, 0x00),
    RGBColor(0x00, 0x9E, 0x73),
    RGBColor(0xCC, 0x79, 0xA7),
    RGBColor(0xE6, 0x9F, 0x00),
    RGBColor(0x56, 0xB4, 0xE9),
];
pub(super) const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
pub(super) const FAINT_INK: RGBColor = RGBColor(0x66, 0x66, 0x66);
pub(super) const GRID: RGBColor = RGBColor(0xDD, 0xDD, 0xDD);
/// The colour of what was measured but does not count.
pub(super) const DISMISSED: RGBColor = RGBColor(0x99, 0x99, 0x99);

/// Converts lengths in units of the chart (SVG user units) to pixels, by a factor that is larger
/// for the bitmap.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ruler(pub(super) u32);

impl Ruler {
    /// Returns a length in pixels of the surface.
    pub(super) fn px(self, length: i32) -> i32 {
        length * self.0 as i32
    }

    /// Returns the same length as an unsigned number, as plotters requires in places.
    pub(super) fn upx(self, length: u32) -> u32 {
        length * self.0
    }
}

/// The style of a piece of text, and which of its points is placed.
#[derive(Clone, Copy)]
pub(super) struct Lettering {
    pub(super) size: u32,
    pub(super) bold: bool,
    pub(super) colour: RGBColor,
    pub(super) anchor: HPos,
}

impl Lettering {
    pub(super) const fn new(size: u32) -> Self {
        Self {
            size,
            bold: false,
            colour: INK,
            anchor: HPos::Left,
        }
    }

    pub(super) const fn bold(self) -> Self {
        Self { bold: true, ..self }
    }

    pub(super) const fn faint(self) -> Self {
        Self {
            colour: FAINT_INK,
            ..self
        }
    }

    pub(super) const fn right(self) -> Self {
        Self {
            anchor: HPos::Right,
            ..self
        }
    }

    fn style(self, ruler: Ruler) -> TextStyle<'static> {
        let style = if self.bold {
            FontStyle::Bold
        } else {
            FontStyle::Normal
        };
        // `into_font().style(…)` would keep the glyphs of the previous style.
        FontDesc::new(
            FontFamily::Name(plot_font::FAMILY),
            f64::from(ruler.upx(self.size)),
            style,
        )
        .color(&self.colour)
        .pos(Pos::new(self.anchor, VPos::Center))
    }
}

/// Writes `text` with its vertical middle at `y`, shortened to `width` where one is given.
pub(super) fn write<DB: DrawingBackend>(
    area: &Area<DB>,
    ruler: Ruler,
    text: &str,
    lettering: Lettering,
    (x, y): (i32, i32),
    width: Option<i32>,
) -> Result<(), DrawError> {
    let style = lettering.style(ruler);
    let fits = |text: &str| -> Result<bool, DrawError> {
        let Some(width) = width else { return Ok(true) };
        let (needed, _) = area.estimate_text_size(text, &style).map_err(failed)?;
        Ok(needed as i32 <= ruler.px(width))
    };
    let mut shown = text.to_owned();
    let mut characters: Vec<char> = text.chars().collect();
    while !characters.is_empty() && !fits(&shown)? {
        characters.pop();
        shown = characters.iter().collect::<String>().trim_end().to_owned() + "…";
    }
    area.draw_text(&shown, &style, (ruler.px(x), ruler.px(y)))
        .map_err(failed)
}

/// Writes a legend in one line from `(x, y)`. Each entry consists of a swatch, which is `swatch`
/// wide and which `draw` draws from its left edge, and of its meaning.
pub(super) fn write_legend<'a, DB: DrawingBackend, E>(
    area: &Area<DB>,
    ruler: Ruler,
    (mut x, y): (i32, i32),
    swatch: i32,
    entries: impl IntoIterator<Item = (E, &'a str)>,
    draw: impl Fn(E, i32) -> Result<(), DrawError>,
) -> Result<(), DrawError> {
    const GAP: i32 = 6;
    const BETWEEN: i32 = 24;
    let lettering = Lettering::new(12);
    for (entry, meaning) in entries {
        draw(entry, x)?;
        x += swatch + GAP;
        write(area, ruler, meaning, lettering, (x, y), None)?;
        x += BETWEEN + text_width(area, meaning, lettering)?;
    }
    Ok(())
}

/// Writes `text` wrapped to lines of `width`. The vertical middle of the first line is at `y`.
pub(super) fn write_lines<DB: DrawingBackend>(
    area: &Area<DB>,
    ruler: Ruler,
    text: &str,
    lettering: Lettering,
    (x, y): (i32, i32),
    width: i32,
) -> Result<(), DrawError> {
    let style = lettering.style(ruler);
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let longer = lines.last().map(|line| format!("{line} {word}"));
        match longer {
            Some(longer)
                if area.estimate_text_size(&longer, &style).map_err(failed)?.0 as i32
                    <= ruler.px(width) =>
            {
                *lines.last_mut().expect("it was just looked at") = longer;
            }
            _ => lines.push(word.to_owned()),
        }
    }
    let line_height = lettering.size as i32 * 4 / 3;
    for (line, n) in lines.iter().zip(0..) {
        write(
            area,
            ruler,
            line,
            lettering,
            (x, y + n * line_height),
            Some(width),
        )?;
    }
    Ok(())
}

/// Returns the width of a line of text in user units, with some room for browsers whose font is
/// wider than the embedded one.
fn text_width<DB: DrawingBackend>(
    area: &Area<DB>,
    text: &str,
    lettering: Lettering,
) -> Result<i32, DrawError> {
    let (width, _) = area
        .estimate_text_size(text, &lettering.style(Ruler(1)))
        .map_err(failed)?;
    Ok(width as i32 * 11 / 10)
}
