//! The manual page of one command.

use clap::Command;
use clap_mangen::Man;
use tabane_cluster::DEFAULT_PATH;

use super::markdown::escaped;

/// The page of `command`, which was built; in roff.
pub(super) fn page(command: &Command) -> Vec<u8> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let man = Man::new(command.clone());
    let mut text = title(name, "1").into_bytes();
    let has_subcommands = command.get_subcommands().any(|c| !c.is_hide_set());
    let rendered = man
        .render_name_section(&mut text)
        .and_then(|()| man.render_synopsis_section(&mut text))
        .and_then(|()| man.render_description_section(&mut text))
        .and_then(|()| man.render_options_section(&mut text))
        .and_then(|()| {
            if has_subcommands {
                man.render_subcommands_section(&mut text)
            } else {
                Ok(())
            }
        });
    // Memory takes every write.
    rendered.expect("a page fits into memory");
    text.extend_from_slice(closing(name).as_bytes());
    text
}

/// The line a page begins with. Without a date: the same program makes the same page.
pub(super) fn title(name: &str, section: &str) -> String {
    let (name, version) = (escaped(&name.to_uppercase()), env!("CARGO_PKG_VERSION"));
    format!(".TH {name} {section} \"\" \"tabane {version}\" \"tabane\"\n")
}

/// The end of every page, and the additions for the daemon's.
fn closing(name: &str) -> String {
    let mut text = String::from(
        ".SH \"EXIT STATUS\"\n\
         0 done, 1 failed, 2 wrong command line or cluster file, 3 no daemon here,\n\
         70 a bug in tabane.\n",
    );
    if name == "tabane-up" {
        text += "\
.SH FILES
.TP
.I /etc/tabane/cluster.toml
The cluster file, unless \\fB\\-\\-config\\fR names another; see
\\fBtabane\\-cluster.toml\\fR(5).
.SH ENVIRONMENT
.TP
.B NOTIFY_SOCKET, WATCHDOG_USEC
Set by \\fBsystemd\\fR(1): it is told when the node is ready, when it ends, and that
its loop turns.
";
        debug_assert!(text.contains(DEFAULT_PATH), "the page names another file");
    }
    let others = match name {
        "tabane" => "",
        "tabane-mpi" => "\\fBtabane\\fR(1), \\fBfi_tabane\\fR(7), ",
        _ => "\\fBtabane\\fR(1), ",
    };
    text + &format!(".SH \"SEE ALSO\"\n{others}\\fBtabane\\-cluster.toml\\fR(5)\n")
}
