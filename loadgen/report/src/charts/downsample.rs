//! Reduces lines to the points that make a visible difference.

/// Width in pixels of the columns of which at most the first, lowest, highest and last point are
/// kept.
const COLUMN_PX: f64 = 2.0;
/// The largest distance between a line and a point that it leaves out, in pixels.
const TOLERANCE_PX: f64 = 0.5;

/// Returns the points with which a line looks as if it went through all of them. `scale` is the
/// number of pixels per unit, horizontally and vertically. Points are in order of x.
///
/// In each column of two pixels the first, lowest, highest and last point are candidates. Of these,
/// points within half a pixel of the line through their neighbours are left out. So a peak keeps
/// its height, and a flat line has two points.
pub(crate) fn downsample(points: &[(f64, f64)], scale: (f64, f64)) -> Vec<(f64, f64)> {
    let candidates = extremes(points, scale.0);
    let (Some(&first), Some(&last)) = (candidates.first(), candidates.last()) else {
        return Vec::new();
    };
    let mut kept = vec![first];
    // Ramer–Douglas–Peucker by vertical distance, with a stack of ranges that remain to be split.
    let mut ranges = vec![(0, candidates.len() - 1)];
    while let Some((from, to)) = ranges.pop() {
        match farthest(&candidates[from..=to], scale.1) {
            Some(at) => ranges.extend([(from + at, to), (from, from + at)]),
            None if to > from => kept.push(candidates[to]),
            None => {}
        }
    }
    debug_assert_eq!(kept.last(), Some(&last));
    kept
}

/// Returns the first, lowest, highest and last point of each column, in order.
fn extremes(points: &[(f64, f64)], scale_x: f64) -> Vec<(f64, f64)> {
    let column = |&(x, _): &(f64, f64)| (x * scale_x / COLUMN_PX).floor();
    let mut kept = Vec::new();
    for column in points.chunk_by(|a, b| column(a) == column(b)) {
        let by_height = |a: &usize, b: &usize| column[*a].1.total_cmp(&column[*b].1);
        let lowest = (0..column.len()).min_by(by_height).unwrap_or(0);
        let highest = (0..column.len()).max_by(by_height).unwrap_or(0);
        let mut at = [0, lowest, highest, column.len() - 1];
        at.sort_unstable();
        for (n, &index) in at.iter().enumerate() {
            if n == 0 || at[n - 1] != index {
                kept.push(column[index]);
            }
        }
    }
    kept
}

/// Returns the inner point farthest from the line through the first and the last; `None` when all
/// are within the tolerance.
fn farthest(points: &[(f64, f64)], scale_y: f64) -> Option<usize> {
    let (&(x0, y0), &(x1, y1)) = points.first().zip(points.last())?;
    let distance = |&(x, y): &(f64, f64)| {
        let on_line = match x1 > x0 {
            true => y0 + (y1 - y0) * (x - x0) / (x1 - x0),
            false => y0,
        };
        (y - on_line).abs() * scale_y
    };
    let inner = 1..points.len().saturating_sub(1);
    inner
        .map(|at| (at, distance(&points[at])))
        .filter(|&(_, off)| off > TOLERANCE_PX)
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::downsample;

    #[test]
    fn a_flat_or_straight_line_is_two_points() {
        let flat: Vec<(f64, f64)> = (0..10_000).map(|n| (f64::from(n), 5.0)).collect();
        assert_eq!(downsample(&flat, (0.03, 1.0)), [(0.0, 5.0), (9_999.0, 5.0)]);
        let rising: Vec<(f64, f64)> = (0..100).map(|n| (f64::from(n), f64::from(n))).collect();
        assert_eq!(downsample(&rising, (1.0, 1.0)).len(), 2);
    }

    #[test]
    fn a_peak_of_one_sample_keeps_its_place_and_height() {
        let mut line: Vec<(f64, f64)> = (0..10_000).map(|n| (f64::from(n), 5.0)).collect();
        line[4_321].1 = 90.0;
        let thinned = downsample(&line, (0.03, 1.0));
        assert!(thinned.contains(&(4_321.0, 90.0)), "{thinned:?}");
        assert!(thinned.len() <= 6, "{thinned:?}");
    }

    #[test]
    fn noise_is_at_most_four_points_a_column_in_order() {
        let noise = |n: u32| f64::from(n.wrapping_mul(2_654_435_761) >> 24);
        let line: Vec<(f64, f64)> = (0..100_000).map(|n| (f64::from(n), noise(n))).collect();
        // 300 pixels wide, so 150 columns.
        let thinned = downsample(&line, (0.003, 1.0));
        assert!((300..=600).contains(&thinned.len()), "{}", thinned.len());
        assert!(thinned.is_sorted_by(|a, b| a.0 < b.0));
    }

    #[test]
    fn short_lines_are_kept() {
        assert!(downsample(&[], (1.0, 1.0)).is_empty());
        assert_eq!(downsample(&[(1.0, 2.0)], (1.0, 1.0)), [(1.0, 2.0)]);
        let vertical = [(1.0, 2.0), (1.0, 9.0), (1.0, 3.0)];
        assert_eq!(downsample(&vertical, (1.0, 1.0)), vertical);
    }
}
