//! Where a key stands in somebody's file, for a finding that only the backend could make.

use std::path::Path;

use super::text::read_text;

/// Returns line and column of the first line that begins with a key; nothing where no line does.
pub fn place_of_key(file: &str, key: &str) -> Option<(u32, u32)> {
    // What is wrong with the file was said when it was read.
    let text = read_text(Path::new(file), &mut Vec::new())?;
    let (line, column) = find(&text, key)?;
    Some((u32::try_from(line).ok()?, u32::try_from(column).ok()?))
}

fn find(text: &str, key: &str) -> Option<(usize, usize)> {
    let begins = |line: &str| {
        let bare = line.trim_start();
        let rest = bare.trim_start_matches('"').strip_prefix(key)?.trim_start_matches('"').trim_start();
        rest.starts_with([':', '=']).then(|| line.len() - bare.len() + 1)
    };
    text.lines().zip(1..).find_map(|(line, number)| Some((number, begins(line)?)))
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn a_key_is_found_in_every_kind_of_file_and_no_longer_one_for_it() {
        assert_eq!(find("---\nefforts: x\neffort: high\n---\n", "effort"), Some((3, 1)));
        assert_eq!(find("a = 1\neffort = \"high\"\n", "effort"), Some((2, 1)));
        assert_eq!(find("{\n  \"tools\": [\"effort\"],\n  \"effort\" : 1\n}", "effort"), Some((3, 3)));
        assert_eq!(find("---\ndescription: effort\n---\n", "effort"), None);
    }
}
