//! What keys, columns and bars mean, over the middle of the screen.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::rows::{Look, cut};

const LINES: [&str; 13] = [
    "up down k j      select another peer",
    "pgup pgdn space  one that is farther away",
    "home end g G     the first, the last",
    "enter  esc       large graphs of its paths; back",
    "s  r             sort by the next; reverse",
    "ctrl-l  q        draw anew; leave",
    "",
    "OUT IN   bits a second: k, M, G are 10^3, 10^6, 10^9",
    "bars     the last 180 looks, now at the right;",
    "         full is the highest in its list, at least 100k",
    "RTT      of a peer: of its fastest path",
    "LOSS     of a peer: of its worst path that works",
    "RESENT   bytes that were sent once more",
];
/// Above and below, left and right: a line, and a space beside the words.
const FRAME: (u16, u16) = (4, 2);

/// Draws it, as far as there is room.
pub fn draw(look: Look, area: Rect, buffer: &mut Buffer) {
    let longest = LINES.iter().map(|line| line.chars().count()).max();
    let wide = u16::try_from(longest.unwrap_or(0)).unwrap_or(u16::MAX);
    let high = u16::try_from(LINES.len()).unwrap_or(u16::MAX);
    let width = (wide + FRAME.0).min(area.width);
    let height = (high + FRAME.1).min(area.height);
    let inner = usize::from(width.saturating_sub(FRAME.0));
    let (x, y) = (
        area.x + (area.width - width) / 2,
        area.y + (area.height - height) / 2,
    );
    let (dash, bar) = if look.blocks {
        ("─", "│")
    } else {
        ("-", "|")
    };
    if area.is_empty() {
        return;
    }
    let edge = dash.repeat(inner + 2);
    let corners = match look.blocks {
        true => ["┌", "┐", "└", "┘"],
        false => ["+"; 4],
    };
    let words = LINES
        .iter()
        .map(|line| format!("{bar} {:inner$} {bar}", cut(line, inner)));
    // Nothing of what is below shines through, colours neither.
    for place in Rect::new(x, y, width, height).positions() {
        buffer[place].reset();
    }
    let top = format!("{}{edge}{}", corners[0], corners[1]);
    let bottom = format!("{}{edge}{}", corners[2], corners[3]);
    let room = usize::from(height.saturating_sub(FRAME.1));
    let lines = std::iter::once(top).chain(words.take(room)).chain([bottom]);
    for (line, y) in lines.zip(y..area.bottom()) {
        buffer.set_stringn(x, y, line, width.into(), Style::new());
    }
}
