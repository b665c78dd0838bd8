//! The little JSON that records need.
//!
//! By hand: a JSON library here would be one of the simulator's, too, for fields that are numbers and words of our own.

use std::fmt::{Display, Write};

/// An object or array being written to the end of a text; closed by its `end`.
pub struct Json<'a> {
    text: &'a mut String,
    is_first: bool,
}

impl<'a> Json<'a> {
    /// Begins an object.
    pub fn object(text: &'a mut String) -> Json<'a> {
        text.push('{');
        Json {
            text,
            is_first: true,
        }
    }

    fn key(&mut self, key: &str) {
        if !core::mem::replace(&mut self.is_first, false) {
            self.text.push(',');
        }
        self.text.push('"');
        self.text.push_str(key);
        self.text.push_str("\":");
    }

    /// A number, `true`, `false`, or what else is JSON as it is shown.
    pub fn number(&mut self, key: &str, number: impl Display) -> &mut Json<'a> {
        self.key(key);
        let _ = write!(self.text, "{number}");
        self
    }

    /// A text.
    pub fn string(&mut self, key: &str, string: &str) -> &mut Json<'a> {
        self.key(key);
        quote(string, self.text);
        self
    }

    /// Two words that need no quoting, with a colon between them.
    pub fn string_joined(&mut self, key: &str, before: &str, after: &str) -> &mut Json<'a> {
        self.number(key, format_args!("\"{before}:{after}\""))
    }

    /// A text, if there is one.
    pub fn string_if(&mut self, key: &str, string: Option<&str>) -> &mut Json<'a> {
        if let Some(string) = string {
            self.string(key, string);
        }
        self
    }

    /// An object inside, filled by `fill`.
    pub fn inside(&mut self, key: &str, fill: impl FnOnce(&mut Json<'_>)) -> &mut Json<'a> {
        self.key(key);
        let mut inner = Json::object(self.text);
        fill(&mut inner);
        inner.end();
        self
    }

    /// An array of the elements that `items` writes, one in each call.
    pub fn array<T>(
        &mut self,
        key: &str,
        items: impl IntoIterator<Item = T>,
        write: impl Fn(T, &mut String),
    ) -> &mut Json<'a> {
        self.key(key);
        self.text.push('[');
        for (i, item) in items.into_iter().enumerate() {
            if i > 0 {
                self.text.push(',');
            }
            write(item, self.text);
        }
        self.text.push(']');
        self
    }

    /// Ends the object.
    pub fn end(self) {
        self.text.push('}');
    }
}

/// Appends a JSON string.
pub fn quote(string: &str, text: &mut String) {
    text.push('"');
    for c in string.chars() {
        match c {
            '"' | '\\' => {
                text.push('\\');
                text.push(c);
            }
            c if c < ' ' => {
                let _ = write!(text, "\\u{:04x}", c as u32);
            }
            c => text.push(c),
        }
    }
    text.push('"');
}
