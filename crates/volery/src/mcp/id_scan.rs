//! Finds the id of a request in a line that is not valid JSON or too long to store.
//!
//! Only a key of the outermost object counts: an answer with an id from inside the arguments could end another request of
//! the client. Works byte by byte, so that a line need not be in memory.

use serde_json::Value;

/// The longest id that is read.
const TOKEN_MAX: usize = 1_024;

/// The scan of one line.
#[derive(Debug, Default)]
pub(super) struct IdScan {
    depth: u32,
    root: Root,
    position: ObjectPosition,
    string: StringState,
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

/// The position of the scan in the outermost object.
#[derive(Debug, Default, PartialEq, Eq)]
enum ObjectPosition {
    #[default]
    Key,
    Value,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum StringState {
    #[default]
    Outside,
    Inside,
    Escape,
}

/// The result of a scan.
#[derive(Debug, PartialEq)]
pub(super) struct ScanResult {
    pub(super) id: Option<Value>,
    /// The line is a whole object with a method and without an id, so no answer is expected.
    pub(super) notification: bool,
}

impl IdScan {
    /// Scans the next bytes of the line.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.step(*byte);
        }
    }

    pub(super) fn finish(self) -> ScanResult {
        let whole = self.root == Root::Object && self.depth == 0 && self.string == StringState::Outside;
        ScanResult { notification: whole && self.has_method && self.id.is_none(), id: self.id }
    }

    fn step(&mut self, byte: u8) {
        match self.string {
            StringState::Escape => {
                self.string = StringState::Inside;
                self.push_byte(byte);
            }
            StringState::Inside => match byte {
                b'"' => self.end_text(),
                b'\\' => {
                    self.string = StringState::Escape;
                    self.push_byte(byte);
                }
                _ => self.push_byte(byte),
            },
            StringState::Outside => self.step_outside(byte),
        }
    }

    fn step_outside(&mut self, byte: u8) {
        let outermost = self.depth == 1 && self.root == Root::Object;
        match byte {
            b'"' => {
                self.string = StringState::Inside;
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
                self.position = ObjectPosition::Value;
                self.token.clear();
            }
            b',' if outermost => {
                self.end_bare();
                self.position = ObjectPosition::Key;
            }
            b' ' | b'\t' | b'\r' => self.end_bare(),
            _ => self.push_byte(byte),
        }
    }

    fn push_byte(&mut self, byte: u8) {
        if self.depth == 1 && self.token.len() < TOKEN_MAX {
            self.token.push(byte);
        }
    }

    fn end_text(&mut self) {
        self.string = StringState::Outside;
        if self.depth != 1 || self.root != Root::Object {
            return;
        }
        let token = std::mem::take(&mut self.token);
        match self.position {
            ObjectPosition::Key => {
                self.has_method |= token == b"method";
                self.key = token;
            }
            ObjectPosition::Value if self.key == b"id" && token.len() < TOKEN_MAX => {
                let quoted = [b"\"", token.as_slice(), b"\""].concat();
                self.id = serde_json::from_slice(&quoted).ok();
            }
            ObjectPosition::Value => {}
        }
    }

    /// Ends a value without quotes. Only a number can be an id.
    fn end_bare(&mut self) {
        let token = std::mem::take(&mut self.token);
        let is_id = self.depth == 1 && self.position == ObjectPosition::Value && self.key == b"id";
        if is_id && !token.is_empty() {
            self.id = serde_json::from_slice(&token).ok().filter(Value::is_number);
        }
    }
}
