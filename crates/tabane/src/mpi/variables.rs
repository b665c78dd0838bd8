//! The variables that the MPIs read. They do not collide, so all are set for whichever comes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::Path;

use tabane_fi::environment::names_us;

/// The variables of the provider, which all ranks need.
const OF_PROVIDER: [&str; 10] = [
    "TABANE_LINKS",
    "TABANE_KEY_FILE",
    "TABANE_KEY",
    "TABANE_WIRE",
    "TABANE_PORTS",
    "TABANE_PEER_TIMEOUT",
    "TABANE_SHM",
    "TABANE_EAGER",
    "TABANE_BUNDLES",
    "TABANE_STATS",
];
/// Of libfabric, which they need too.
const OF_LIBFABRIC: [&str; 2] = ["FI_PROVIDER_PATH", "FI_PROVIDER"];
/// Variables that Open MPI passes to ranks on other nodes, besides its own: names separated by `;`.
const FORWARDED: &str = "OMPI_MCA_mca_base_env_list";
/// That list, as Open MPI 5 takes it.
const SEPARATOR: &str = ";";

/// A variable that has to be so for an MPI to use the provider.
struct Choice {
    name: &'static str,
    /// The value if it is not set.
    value: &'static str,
    /// Whether a user's value will do.
    fits: fn(&str) -> bool,
}

const CHOICES: [Choice; 11] = [
    // libfabric. MPICH has no variable of its own that names a provider.
    Choice {
        name: "FI_PROVIDER",
        value: "tabane",
        fits: names_us,
    },
    // Open MPI.
    Choice {
        name: "OMPI_MCA_pml",
        value: "cm",
        fits: |set| set == "cm",
    },
    Choice {
        name: "OMPI_MCA_mtl",
        value: "ofi",
        fits: |set| set == "ofi",
    },
    Choice {
        name: "OMPI_MCA_mtl_ofi_provider_include",
        value: "tabane",
        fits: names_us,
    },
    // The transport of one-sided operations: otherwise it would use TCP, which does not survive a link's failure.
    Choice {
        name: "OMPI_MCA_btl",
        value: "self,ofi",
        fits: |_| true,
    },
    Choice {
        name: "OMPI_MCA_btl_ofi_provider_include",
        value: "tabane",
        fits: names_us,
    },
    // All ranks are named to each one at its beginning, not at its first message to them: whom it can ask for a way to
    // somebody, and which few bundles it keeps, depends on all. (A job is never larger than this.)
    Choice {
        name: "OMPI_MCA_mpi_add_procs_cutoff",
        value: "1000000",
        fits: |_| true,
    },
    // Debian takes out all but one that needs another BTL.
    Choice {
        name: "OMPI_MCA_osc",
        value: "^ucx",
        fits: |_| true,
    },
    // MPICH.
    Choice {
        name: "MPIR_CVAR_CH4_NETMOD",
        value: "ofi",
        fits: |set| set == "ofi",
    },
    // Intel MPI: shared memory within a node, as the others do.
    Choice {
        name: "I_MPI_FABRICS",
        value: "shm:ofi",
        fits: |set| matches!(set, "ofi" | "shm:ofi"),
    },
    Choice {
        name: "I_MPI_OFI_PROVIDER",
        value: "tabane",
        fits: names_us,
    },
];

/// The variables that are set, and those to be set.
pub struct Environment {
    given: fn(&str) -> Option<String>,
    set: BTreeMap<String, String>,
    /// Which of these must not be shown.
    secret: Option<&'static str>,
}

impl Environment {
    /// Nothing to be set yet; `given` returns the existing values.
    pub fn new(given: fn(&str) -> Option<String>) -> Environment {
        Environment {
            given,
            set: BTreeMap::new(),
            secret: None,
        }
    }

    /// Sets a variable, replacing any value.
    pub fn put(&mut self, name: &str, value: &str) {
        self.set.insert(name.to_owned(), value.to_owned());
    }

    /// The same; its value is never shown.
    pub fn put_secret(&mut self, name: &'static str, value: &str) {
        self.put(name, value);
        self.secret = Some(name);
    }

    /// The value that ranks will find. An empty variable counts as unset.
    fn value(&self, name: &str) -> Option<String> {
        let given = || (self.given)(name).filter(|value| !value.is_empty());
        self.set.get(name).cloned().or_else(given)
    }

    /// A variable of the provider, by its name without `TABANE_`: as it reads it.
    pub fn of_provider(&self, name: &str) -> Option<String> {
        let named = self.value(&format!("TABANE_{name}"));
        named.or_else(|| self.value(&format!("FI_TABANE_{name}")))
    }

    /// Makes libfabric look for providers in `folder`, before any other place.
    pub fn look_in(&mut self, folder: &Path) {
        let folder = folder.display().to_string();
        let path = match self.value("FI_PROVIDER_PATH") {
            Some(others) if others.split(':').any(|other| other == folder) => others,
            Some(others) => format!("{folder}:{others}"),
            None => folder,
        };
        self.put("FI_PROVIDER_PATH", &path);
    }

    /// Makes each MPI choose the provider.
    ///
    /// # Errors
    /// The user has chosen otherwise: then the user must decide.
    pub fn choose_provider(&mut self) -> Result<(), String> {
        for choice in &CHOICES {
            match self.value(choice.name) {
                None => self.put(choice.name, choice.value),
                Some(set) if (choice.fits)(&set) => {}
                Some(set) => return Err(conflict(choice, &set)),
            }
        }
        Ok(())
    }

    /// Makes Open MPI pass variables that are not its own to other nodes; other MPIs pass all. By names: values would
    /// be in the arguments of its daemons, for everybody to see.
    pub fn forward(&mut self) {
        let given = self.value(FORWARDED).unwrap_or_default();
        let mut names: Vec<_> = given.split(SEPARATOR).map(str::to_owned).collect();
        for name in self.needed() {
            let is_named = |known: &String| known.split('=').next() == Some(&name);
            if !names.iter().any(is_named) {
                names.push(name);
            }
        }
        names.retain(|name| !name.is_empty());
        self.put(FORWARDED, &names.join(SEPARATOR));
    }

    /// The same if the user also passes something with `-x`: Open MPI 4 does not accept both ways at once.
    pub fn forward_by_words(&self, launcher: &[OsString]) -> Vec<OsString> {
        let ours = self.needed().flat_map(|name| ["-x".to_owned(), name]);
        let (program, arguments) = launcher.split_at(1.min(launcher.len()));
        let program = program.iter().cloned().chain(ours.map(OsString::from));
        program.chain(arguments.iter().cloned()).collect()
    }

    /// The names of variables that ranks need and Open MPI does not know.
    fn needed(&self) -> impl Iterator<Item = String> {
        let ours = OF_LIBFABRIC.iter().chain(&OF_PROVIDER);
        let others = OF_PROVIDER.iter().map(|name| format!("FI_{name}"));
        let names = ours.map(|name| (*name).to_owned()).chain(others);
        names.filter(|name| self.value(name).is_some())
    }

    /// The variables to set.
    pub fn set(&self) -> impl Iterator<Item = (&str, &str)> {
        (self.set.iter()).map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The same for a shell; a secret's value is hidden.
    pub fn shown(&self) -> String {
        let mut text = String::new();
        for (name, value) in self.set() {
            // Memory takes every write.
            let _ = match self.secret == Some(name) {
                true => writeln!(text, "# {name}: a new one for each job"),
                false => writeln!(text, "export {name}={}", quoted(value)),
            };
        }
        text
    }
}

/// A word that a shell takes as it is.
fn quoted(value: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./,:".contains(c);
    match !value.is_empty() && value.chars().all(is_plain) {
        true => value.to_owned(),
        false => format!("'{}'", value.replace('\'', "'\\''")),
    }
}

fn conflict(choice: &Choice, set: &str) -> String {
    let (name, value) = (choice.name, choice.value);
    let set: String = set.chars().flat_map(char::escape_debug).take(80).collect();
    format!(
        "{name}={set} keeps ranks from using tabane, which takes {name}={value}; leave it out, or run the launcher \
         without `tabane mpi`"
    )
}

/// Checks that a launcher's arguments do not choose otherwise: they override variables.
///
/// # Errors
/// The argument that does.
pub fn check_words(words: &[OsString]) -> Result<(), String> {
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    for three in words.windows(3) {
        let [option, name, value] = three else {
            continue;
        };
        let name = match option.trim_start_matches('-') {
            "mca" | "gmca" | "omca" => format!("OMPI_MCA_{name}"),
            "genv" | "env" => name.to_string(),
            _ => continue,
        };
        let choice = CHOICES.iter().find(|choice| choice.name == name);
        if let Some(choice) = choice.filter(|choice| !(choice.fits)(value)) {
            return Err(conflict(choice, value));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing relevant is set.
    fn empty() -> Environment {
        Environment::new(|_| None)
    }

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(Into::into).collect()
    }

    #[test]
    fn each_mpi_finds_its_own_variables() {
        let mut environment = empty();
        environment.look_in(Path::new("/usr/lib/tabane"));
        environment.choose_provider().expect("nobody has chosen");
        environment.put_secret("TABANE_KEY", "00ff");
        environment.forward();
        let set: BTreeMap<_, _> = environment.set().collect();
        for (name, value) in [
            ("FI_PROVIDER_PATH", "/usr/lib/tabane"),
            ("FI_PROVIDER", "tabane"),
            ("OMPI_MCA_pml", "cm"),
            ("OMPI_MCA_mpi_add_procs_cutoff", "1000000"),
            ("OMPI_MCA_mtl_ofi_provider_include", "tabane"),
            ("MPIR_CVAR_CH4_NETMOD", "ofi"),
            ("I_MPI_OFI_PROVIDER", "tabane"),
            (FORWARDED, "FI_PROVIDER_PATH;FI_PROVIDER;TABANE_KEY"),
        ] {
            assert_eq!(set.get(name), Some(&value), "{name}");
        }
    }

    #[test]
    fn every_variable_of_the_provider_is_handed_on() {
        let of_provider = tabane_fi::environment::VARIABLES.iter().map(|(_, help)| {
            let help = help.to_str().unwrap();
            help.split(':').next().unwrap()
        });
        assert!(of_provider.eq(OF_PROVIDER));
    }

    #[test]
    fn a_secret_is_not_shown_and_a_shell_reads_the_rest() {
        let mut environment = empty();
        environment.put_secret("TABANE_KEY", "00ff");
        environment.put("OMPI_MCA_osc", "^ucx");
        environment.put("FI_PROVIDER_PATH", "/it's/here");
        assert_eq!(
            environment.shown(),
            "export FI_PROVIDER_PATH='/it'\\''s/here'\nexport OMPI_MCA_osc='^ucx'\n\
             # TABANE_KEY: a new one for each job\n"
        );
    }

    #[test]
    fn what_was_set_stays_where_it_will_do() {
        let mut environment = Environment::new(|name| {
            let value = match name {
                "I_MPI_FABRICS" => "ofi",
                "FI_PROVIDER" => "tcp,tabane",
                "OMPI_MCA_btl" => "self",
                "FI_PROVIDER_PATH" => "/a:/b",
                FORWARDED => "HOME;TABANE_LINKS=eth1",
                "TABANE_LINKS" => "eth0",
                "FI_TABANE_PORTS" => "40000-40999",
                _ => return None,
            };
            Some(value.to_owned())
        });
        environment.choose_provider().expect("will do");
        environment.look_in(Path::new("/c"));
        environment.forward();
        let set: BTreeMap<_, _> = environment.set().collect();
        for kept in ["I_MPI_FABRICS", "FI_PROVIDER", "OMPI_MCA_btl"] {
            assert_eq!(set.get(kept), None);
        }
        assert_eq!(set["FI_PROVIDER_PATH"], "/c:/a:/b");
        assert_eq!(
            set[FORWARDED],
            "HOME;TABANE_LINKS=eth1;FI_PROVIDER_PATH;FI_PROVIDER;FI_TABANE_PORTS"
        );
        assert_eq!(environment.of_provider("PORTS").unwrap(), "40000-40999");
    }

    #[test]
    fn beside_what_the_user_hands_on_names_are_words() {
        let mut environment = empty();
        environment.put_secret("TABANE_KEY", "00ff");
        environment.put("FI_PROVIDER", "tabane");
        let words = environment.forward_by_words(&words("mpirun -x HOME ./it -x"));
        let expected = "mpirun -x FI_PROVIDER -x TABANE_KEY -x HOME ./it -x";
        assert_eq!(words.join(" ".as_ref()), expected);
    }

    #[test]
    fn another_choice_is_named() {
        let mut environment =
            Environment::new(|name| (name == "OMPI_MCA_pml").then(|| "ob1".to_owned()));
        let said = environment.choose_provider().unwrap_err();
        assert!(said.starts_with("OMPI_MCA_pml=ob1 ") && said.contains("OMPI_MCA_pml=cm"));
        for line in [
            "mpirun --mca pml ob1 ./it",
            "mpirun -mca mtl_ofi_provider_include tcp ./it",
            "mpiexec -genv FI_PROVIDER sockets ./it",
        ] {
            assert!(check_words(&words(line)).is_err(), "{line}");
        }
        for line in [
            "mpirun --mca pml cm --mca btl self,vader ./it",
            "mpiexec -n 2 ./it pml ob1",
            "srun ./it",
        ] {
            assert_eq!(check_words(&words(line)), Ok(()), "{line}");
        }
    }
}
