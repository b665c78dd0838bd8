//! The manual page of one command.

use clap::Command;
use clap_mangen::Man;

use super::markdown::escaped;
use super::sections::{self, Sections};

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

/// The end of every page: what its options do not tell.
fn closing(name: &str) -> String {
    let sections = sections::of(name);
    let mut text = sections.map_or_else(String::new, Sections::output);
    text += ".SH \"EXIT STATUS\"\n\
         0 done, 1 failed, 2 wrong command line or cluster file, 3 no daemon here,\n\
         70 a bug in tabane.\n";
    if name == "tabane-up" {
        text += "\
.SH ENVIRONMENT
.TP
.B NOTIFY_SOCKET, WATCHDOG_USEC
Set by \\fBsystemd\\fR(1): it is told when the node is ready, when it ends, and that
its loop turns.
";
    }
    text += &sections.map_or_else(String::new, Sections::files_and_examples);
    let others = match name {
        "tabane" => "",
        "tabane-mpi" => "\\fBtabane\\fR(1), \\fBfi_tabane\\fR(7), ",
        _ => "\\fBtabane\\fR(1), ",
    };
    text + &format!(".SH \"SEE ALSO\"\n{others}\\fBtabane\\-cluster.toml\\fR(5)\n")
}
