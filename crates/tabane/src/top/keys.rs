//! The meaning of keys.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// The user's wish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Select another peer, this many further down (or up).
    Move(isize),
    /// Select another peer, this many pages further down (or up).
    Page(isize),
    /// Select the first peer.
    First,
    /// Select the last peer.
    Last,
    /// Show the graphs of the selected peer, or all peers again.
    Graphs,
    /// All peers again.
    Back,
    /// Sort by something else.
    Sort,
    /// Turn the order around.
    Reverse,
    /// What keys and bars mean, or that no longer.
    Help,
    /// Leave.
    Quit,
    /// Draw everything anew.
    Redraw,
}

/// The meaning of a key, if it has one.
pub fn action(key: KeyEvent) -> Option<Action> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c' | 'd') => Some(Action::Quit),
            KeyCode::Char('l') => Some(Action::Redraw),
            KeyCode::Char('f') => Some(Action::Page(1)),
            KeyCode::Char('b') => Some(Action::Page(-1)),
            _ => None,
        };
    }
    Some(match key.code {
        KeyCode::Up | KeyCode::Char('k') => Action::Move(-1),
        KeyCode::Down | KeyCode::Char('j') => Action::Move(1),
        KeyCode::PageUp => Action::Page(-1),
        KeyCode::PageDown | KeyCode::Char(' ') => Action::Page(1),
        KeyCode::Home | KeyCode::Char('g') => Action::First,
        KeyCode::End | KeyCode::Char('G') => Action::Last,
        KeyCode::Enter => Action::Graphs,
        KeyCode::Esc | KeyCode::Backspace => Action::Back,
        KeyCode::Char('s') => Action::Sort,
        KeyCode::Char('r') => Action::Reverse,
        KeyCode::Char('?' | 'h') | KeyCode::F(1) => Action::Help,
        KeyCode::Char('q' | 'Q') => Action::Quit,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys() {
        let plain = |code| action(KeyEvent::new(code, KeyModifiers::NONE));
        let control = |c| action(KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL));
        assert_eq!(plain(KeyCode::Char('q')), Some(Action::Quit));
        assert_eq!(control('c'), Some(Action::Quit));
        assert_eq!(plain(KeyCode::Char('c')), None);
        assert_eq!(control('s'), None, "XOFF is not for sorting");
        assert_eq!(plain(KeyCode::Down), Some(Action::Move(1)));
        assert_eq!(plain(KeyCode::Char('k')), Some(Action::Move(-1)));
        assert_eq!(plain(KeyCode::PageDown), Some(Action::Page(1)));
        assert_eq!(plain(KeyCode::Char('G')), Some(Action::Last));
        assert_eq!(plain(KeyCode::Enter), Some(Action::Graphs));
        assert_eq!(plain(KeyCode::Esc), Some(Action::Back));
        assert_eq!(plain(KeyCode::Char('?')), Some(Action::Help));
        assert_eq!(plain(KeyCode::F(2)), None);
        let mut released = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE);
        released.kind = KeyEventKind::Release;
        assert_eq!(action(released), None);
    }
}
