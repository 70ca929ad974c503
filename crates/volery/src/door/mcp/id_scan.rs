//! Finds the id of a request in a text that is not valid JSON, or is too long to be kept.
//!
//! Only a key of the outermost object counts: answering with an id from inside the arguments could end another
//! request of the client. Works byte by byte, so that a line need not be held in memory.

use serde_json::Value;

/// The longest id that is looked at.
const TOKEN_MAX: usize = 1_024;

/// The scan of one line.
#[derive(Debug, Default)]
pub(super) struct IdScan {
    depth: u32,
    root: Root,
    place: Place,
    text: Text,
    key: Vec<u8>,
    token: Vec<u8>,
    id: Option<Value>,
    has_method: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Root {
    #[default]
    Before,
    Object,
    Other,
}

/// Where in the outermost object the scan stands.
#[derive(Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Key,
    Value,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Text {
    #[default]
    Outside,
    Inside,
    Escape,
}

/// What a scan found out about a line.
#[derive(Debug, PartialEq)]
pub(super) struct Scanned {
    pub(super) id: Option<Value>,
    /// A whole object with a method and without an id: nobody waits for an answer.
    pub(super) notification: bool,
}

impl IdScan {
    /// Takes the next bytes of the line in.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.step(*byte);
        }
    }

    pub(super) fn finish(self) -> Scanned {
        let whole = self.root == Root::Object && self.depth == 0 && self.text == Text::Outside;
        Scanned { notification: whole && self.has_method && self.id.is_none(), id: self.id }
    }

    fn step(&mut self, byte: u8) {
        match self.text {
            Text::Escape => {
                self.text = Text::Inside;
                self.keep(byte);
            }
            Text::Inside => match byte {
                b'"' => self.end_text(),
                b'\\' => {
                    self.text = Text::Escape;
                    self.keep(byte);
                }
                _ => self.keep(byte),
            },
            Text::Outside => self.step_outside(byte),
        }
    }

    fn step_outside(&mut self, byte: u8) {
        let outermost = self.depth == 1 && self.root == Root::Object;
        match byte {
            b'"' => {
                self.text = Text::Inside;
                self.token.clear();
            }
            b'{' | b'[' => {
                if self.root == Root::Before {
                    self.root = if byte == b'{' { Root::Object } else { Root::Other };
                }
                self.depth = self.depth.saturating_add(1);
                self.token.clear();
            }
            b'}' | b']' => {
                self.end_bare();
                self.depth = self.depth.saturating_sub(1);
            }
            b':' if outermost => {
                self.place = Place::Value;
                self.token.clear();
            }
            b',' if outermost => {
                self.end_bare();
                self.place = Place::Key;
            }
            b' ' | b'\t' | b'\r' => self.end_bare(),
            _ => self.keep(byte),
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.token.len() < TOKEN_MAX {
            self.token.push(byte);
        }
    }

    fn end_text(&mut self) {
        self.text = Text::Outside;
        if self.depth != 1 || self.root != Root::Object {
            return;
        }
        let token = std::mem::take(&mut self.token);
        match self.place {
            Place::Key => {
                self.has_method |= token == b"method";
                self.key = token;
            }
            Place::Value if self.key == b"id" && token.len() < TOKEN_MAX => {
                let quoted = [b"\"", token.as_slice(), b"\""].concat();
                self.id = serde_json::from_slice(&quoted).ok();
            }
            Place::Value => {}
        }
    }

    /// Ends a value that has no quotes. Only a number is an id.
    fn end_bare(&mut self) {
        let token = std::mem::take(&mut self.token);
        let is_id = self.depth == 1 && self.place == Place::Value && self.key == b"id";
        if is_id && !token.is_empty() {
            self.id = serde_json::from_slice(&token).ok().filter(Value::is_number);
        }
    }
}
