//! Claude Code with the service of another vendor: keys of its user for one service do not reach the other.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::vendor_env::{Vendor, VendorEnv};

/// Keeps what the program is given, and ends.
const STUB: &str = "#!/bin/sh
env > \"$STUB_FOLDER/environment\"
for word in \"$@\"; do
  case \"$word\" in --settings=*) cp \"${word#--settings=}\" \"$STUB_FOLDER/settings\" ;; esac
done
";

#[test]
fn only_the_services_own_key_reaches_it() {
    let Some(mut vendor_env) = VendorEnv::make(&Vendor::new("claude"), "other service", Vec::new()) else {
        return;
    };
    let stub = vendor_env.env.path("bin/claude");
    fs::remove_file(&stub).unwrap();
    fs::write(&stub, STUB).unwrap();
    fs::set_permissions(&stub, PermissionsExt::from_mode(0o755)).unwrap();
    let folder = vendor_env.env.path("given");
    fs::create_dir(&folder).unwrap();
    vendor_env.set("STUB_FOLDER", &folder.display().to_string());
    vendor_env.set("ZAI_API_KEY", "key-of-the-service");
    for name in ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"] {
        vendor_env.set(name, "key-of-the-user");
    }
    vendor_env.set("ANTHROPIC_CUSTOM_HEADERS", "x-gateway: key-of-the-user");
    vendor_env.set("AWS_SECRET_ACCESS_KEY", "key-of-the-user");
    vendor_env.agent_named("worker", "glm", "env: [STUB_FOLDER]\ntimeout: 100s");
    let _ = vendor_env.run("Go.", &[]);
    let environment = fs::read_to_string(folder.join("environment")).unwrap();
    assert!(!environment.contains("key-of-the-user"), "{environment}");
    assert!(environment.contains("ANTHROPIC_AUTH_TOKEN=key-of-the-service"), "{environment}");
    assert!(environment.contains("ANTHROPIC_BASE_URL=https://api.z.ai/"), "{environment}");
    // Its user's settings can hold keys too, which those of the run take away.
    let settings = fs::read_to_string(folder.join("settings")).unwrap();
    assert!(settings.contains("\"ANTHROPIC_AUTH_TOKEN\":\"key-of-the-service\""), "{settings}");
    assert!(settings.contains("\"ANTHROPIC_API_KEY\":\"\""), "{settings}");
}
