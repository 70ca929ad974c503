//! What people see before they agree: the diff of every client, as a snapshot.

use super::super::client::{CLIENTS, Scope};
use super::files::Place;

#[test]
fn the_difference_for_every_client_is_as_it_was_reviewed() {
    let mut shown = String::new();
    for (scope, name) in [(Scope::Project, "project"), (Scope::User, "user")] {
        for client in CLIENTS {
            let place = Place::new();
            place.write(
                "project/.mcp.json",
                "{\n  \"mcpServers\": {\n    \"other\": {\"command\": \"o\"}\n  }\n}\n",
            );
            place.write(
                "home/.codex/config.toml",
                "# mine\nmodel = \"m\"\n\n[mcp_servers.other]\ncommand = \"o\"\n",
            );
            place.write("project/opencode.jsonc", "{\n  // mine\n  \"model\": \"m\" // this one\n}\n");
            shown.push_str(&format!("# {} ({name})\n", client.name));
            for file in place.init(client.name, scope) {
                shown.push_str(&file.diff.replace(place.path("").to_str().unwrap(), "/"));
            }
        }
    }
    insta::assert_snapshot!(shown);
}
