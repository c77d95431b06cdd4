//! The table, as aligned text or as Markdown.

use super::line::Line;

const HEAD: [&str; 6] = ["measure", "setting", "keepalived", "barevip", "floor", "verdict"];

/// The lines as a table that a terminal shows well.
pub(crate) fn text(lines: &[Line]) -> String {
    let rows = cells(lines);
    let widths = widths(&rows);
    let rule = widths.map(|width| "─".repeat(width));
    let mut printed: Vec<String> = rows.iter().map(|row| aligned(row, widths, "  ")).collect();
    printed.insert(1, aligned(&rule, widths, "  "));
    printed.join("\n")
}

/// The lines as a Markdown table, aligned too.
pub(crate) fn markdown(lines: &[Line]) -> String {
    let rows = cells(lines);
    let widths = widths(&rows);
    let rule = widths.map(|width| "-".repeat(width));
    let mut printed: Vec<String> =
        rows.iter().map(|row| format!("| {} |", aligned(row, widths, " | "))).collect();
    printed.insert(1, format!("| {} |", aligned(&rule, widths, " | ")));
    printed.join("\n")
}

fn cells(lines: &[Line]) -> Vec<[String; 6]> {
    let mut above = "";
    let mut rows = vec![HEAD.map(str::to_owned)];
    for line in lines {
        // A measure stands once for all its settings.
        let measure = if line.measure == above { "" } else { line.measure };
        above = line.measure;
        rows.push([
            measure.to_owned(),
            line.setting.clone(),
            line.keepalived.to_string(),
            line.barevip.to_string(),
            line.floor.to_string(),
            line.verdict().to_owned(),
        ]);
    }
    rows
}

fn widths(rows: &[[String; 6]]) -> [usize; 6] {
    rows.iter().fold([0; 6], |mut widths, row| {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
        widths
    })
}

fn aligned(row: &[String; 6], widths: [usize; 6], between: &str) -> String {
    let cells: Vec<String> =
        row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
    cells.join(between).trim_end().to_owned()
}
