//! The font that every chart is drawn with, registered with plotters.
//!
//! With its `ab_glyph` feature, plotters knows only the fonts that a program registers. Cargo's
//! feature unification enables that feature for the whole workspace, so criterion's own plots would
//! panic after measuring. Therefore every bench registers the font in its configuration:
//!
//! ```text
//! criterion_group! {
//!     name = benches;
//!     config = { plot_font::register(); Criterion::default() };
//!     targets = …
//! }
//! ```
//!
//! The font is Noto Sans, under the SIL Open Font License 1.1: `NotoSans-OFL.txt` of this crate.

use plotters::style::{FontStyle, register_font};

/// The family under which the font is registered: plotters' and criterion's default.
pub const FAMILY: &str = "sans-serif";

/// Registers the font in the styles that charts use. Calling it again changes nothing.
pub fn register() {
    for (style, font) in [
        (FontStyle::Normal, notosans::REGULAR_TTF),
        (FontStyle::Bold, notosans::BOLD_TTF),
        (FontStyle::Italic, notosans::ITALIC_TTF),
        (FontStyle::Oblique, notosans::ITALIC_TTF),
    ] {
        // The error implements neither Display nor Debug. The fonts are constants, and the test
        // below draws with them.
        assert!(
            register_font(FAMILY, style, font).is_ok(),
            "the embedded Noto Sans is a font"
        );
    }
}

#[cfg(test)]
mod tests {
    use plotters::style::{FontDesc, FontFamily, FontStyle};

    #[test]
    fn text_has_a_size_in_every_style_once_the_font_is_there() {
        super::register();
        super::register();
        for style in [
            FontStyle::Normal,
            FontStyle::Bold,
            FontStyle::Italic,
            FontStyle::Oblique,
        ] {
            let font = FontDesc::new(FontFamily::Name(super::FAMILY), 20.0, style);
            let (width, height) = font.box_size("µs – 150,000").expect("a registered font");
            assert!(width > 50 && height > 10, "{width} × {height}");
        }
    }
}
