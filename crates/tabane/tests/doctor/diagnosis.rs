//! Running doctor and reading what it says.

use std::process::Command;

use serde_json::Value;
use tabane_lab::cluster::{Cluster, PATIENCE, output};

use crate::common::{tabane_behind, text};

/// What doctor said, and how it ended.
pub struct Diagnosis {
    pub exit: Option<i32>,
    pub value: Value,
}

/// Doctor on a node.
pub fn doctor(cluster: &Cluster, node: usize) -> Diagnosis {
    doctor_with(cluster, node, &[])
}

/// Doctor on a node, with more arguments. It asks nobody else.
pub fn doctor_with(cluster: &Cluster, node: usize, args: &[&str]) -> Diagnosis {
    doctor_of_all(cluster, node, &[&["--alone"], args].concat())
}

/// Doctor on a node, with more arguments, which asks the peers' daemons.
pub fn doctor_of_all(cluster: &Cluster, node: usize, args: &[&str]) -> Diagnosis {
    let mut command = tabane_behind(cluster, node, &[], "doctor");
    command.arg("--json").args(args);
    if !args.contains(&"--seconds") {
        command.args(["--seconds", "1"]);
    }
    diagnose(command)
}

/// What starts a program without any privileges.
pub const WITHOUT_PRIVILEGES: [&str; 4] = [
    "setpriv",
    "--bounding-set=-all",
    "--inh-caps=-all",
    "--ambient-caps=-all",
];

/// Doctor on a node, without any privileges.
pub fn doctor_unprivileged(cluster: &Cluster, node: usize) -> Diagnosis {
    let mut command = tabane_behind(cluster, node, &WITHOUT_PRIVILEGES, "doctor");
    command.args(["--alone", "--json", "--seconds", "1"]);
    diagnose(command)
}

pub fn diagnose(command: Command) -> Diagnosis {
    let done = output("tabane doctor", command, PATIENCE).expect("doctor ends");
    let value = serde_json::from_slice(&done.stdout)
        .unwrap_or_else(|_| panic!("{}{}", text(&done.stdout), text(&done.stderr)));
    Diagnosis {
        exit: done.status.code(),
        value,
    }
}

impl Diagnosis {
    /// Causes that it named, notes left out, and whether the processor is short:
    /// where the tests run it may be, and that is true then.
    pub fn causes(&self) -> Vec<&str> {
        self.named(|finding| finding["severity"] != "note" && finding["cause"] != "cpu")
    }

    /// Whether it says, or notes, that the processor is short.
    pub fn is_short_of_cpu(&self) -> bool {
        !self.named(|finding| finding["cause"] == "cpu").is_empty()
    }

    /// Causes that it noted only.
    pub fn notes(&self) -> Vec<&str> {
        self.named(|finding| finding["severity"] == "note")
    }

    fn named(&self, which: impl Fn(&Value) -> bool) -> Vec<&str> {
        let findings = self.value["findings"].as_array().expect("findings");
        let chosen = findings.iter().filter(|f| which(f));
        chosen.filter_map(|f| f["cause"].as_str()).collect()
    }

    /// The finding of this cause, which must be the worst there is.
    #[track_caller]
    pub fn first(&self, cause: &str) -> &Value {
        let findings = self.value["findings"].as_array().expect("findings");
        let first = findings.iter().find(|f| f["cause"] != "cpu");
        let first = first.unwrap_or_else(|| panic!("{:#}", self.value));
        assert_eq!(first["cause"], cause, "{:#}", self.value);
        for list in ["evidence", "mend"] {
            let lines = first[list].as_array().expect("a list");
            assert!(!lines.is_empty(), "{:#}", self.value);
        }
        assert_ne!(first["what"], "", "{:#}", self.value);
        assert_ne!(first["cost"], "", "{:#}", self.value);
        first
    }

    /// This cause is named, on this link, and no other.
    #[track_caller]
    pub fn only(&self, cause: &str, links: &[u8]) -> &Value {
        assert_eq!(self.causes(), [cause], "{:#}", self.value);
        assert_eq!(self.exit, Some(1), "{:#}", self.value);
        let first = self.first(cause);
        assert_eq!(first["links"], serde_json::json!(links), "{:#}", self.value);
        first
    }

    /// Nothing is wrong.
    #[track_caller]
    pub fn well(&self) {
        assert_eq!(self.causes(), [""; 0], "{:#}", self.value);
        let is_right = self.exit == Some(0) || self.is_short_of_cpu();
        assert!(is_right, "{:#}", self.value);
    }
}

/// Run `program` on a node, to its good end.
#[track_caller]
pub fn run(cluster: &Cluster, node: usize, program: &str, args: &[&str]) {
    let mut command = cluster.lab().command(node, program);
    command.args(args);
    let done = output(program, command, PATIENCE).expect("it ends");
    assert!(done.status.success(), "{program}: {}", text(&done.stderr));
}

/// A firewall on a node: a chain at `hook` with one rule.
#[track_caller]
pub fn firewall(cluster: &Cluster, node: usize, hook: &str, rule: &str) {
    run(cluster, node, "nft", &["add", "table", "inet", "wall"]);
    let chain = format!("add chain inet wall c {{ type filter hook {hook} priority 0; }}");
    run(cluster, node, "nft", &[&chain]);
    run(
        cluster,
        node,
        "nft",
        &[&format!("add rule inet wall c {rule}")],
    );
}
