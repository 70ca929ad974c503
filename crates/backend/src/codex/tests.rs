//! Streams as the app server of Codex writes them, whole, cut and wrong.

use super::command_line::script;

#[test]
fn the_script_is_found_within_the_quotes_of_its_shell() {
    assert_eq!(script("/bin/bash -lc 'touch a.txt'").as_deref(), Some("touch a.txt"));
    assert_eq!(script("/bin/bash -lc ls").as_deref(), Some("ls"));
    assert_eq!(script(r#"bash -c "echo 'a' \"b\" \\ \$x""#).as_deref(), Some(r#"echo 'a' "b" \ $x"#));
    assert_eq!(script(r"/bin/sh -c 'it'\''s'").as_deref(), Some("it's"));
    assert_eq!(script("python3 -c 'x y'").as_deref(), Some("python3 -c 'x y'"));
    assert_eq!(script("/bin/bash -lc 'rm x"), None);
}
