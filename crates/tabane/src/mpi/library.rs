//! Where the provider is.

use std::fs::File;
use std::path::{Path, PathBuf};

use tabane_cluster::plain;

/// Its names, as installed and as built by cargo. libfabric opens any file whose name ends
/// in `fi.so`.
const NAMES: [&str; 2] = ["libtabane-fi.so", "libtabane_fi.so"];

/// The folder of the provider, for `FI_PROVIDER_PATH`.
///
/// # Errors
/// It is not there, or this user cannot read it; and what to do.
pub fn find(named: Option<&Path>) -> Result<PathBuf, String> {
    let places = match named {
        // The file itself may be named, too.
        Some(named) if named.is_file() => vec![named.parent().unwrap_or(named).to_owned()],
        Some(named) => vec![named.to_owned()],
        None => usual(),
    };
    let files = places
        .iter()
        .flat_map(|place| NAMES.map(|name| place.join(name)));
    let Some(file) = files.into_iter().find(|file| file.exists()) else {
        let looked: Vec<_> = places.iter().map(|it| it.display().to_string()).collect();
        return Err(format!(
            "there is no {} in {}; install it (`make install`, or the package libtabane-fi) on every node, or say where it is \
             with --library",
            NAMES[0],
            looked.join(", ")
        ));
    };
    File::open(&file).map_err(|error| format!("{}: {}", file.display(), plain(&error)))?;
    let folder = file.parent().unwrap_or(&file);
    // The ranks' working directories are others.
    std::path::absolute(folder).map_err(|error| format!("{}: {}", folder.display(), plain(&error)))
}

/// Its usual places: beside the program by cargo, below the same prefix when installed.
pub fn usual() -> Vec<PathBuf> {
    let mut places = Vec::new();
    // The file's own place, also where it was called by a link.
    let own = std::env::current_exe().and_then(|program| program.canonicalize());
    if let Some(folder) = own.ok().as_deref().and_then(Path::parent) {
        places.extend([folder.to_owned(), folder.join("deps")]);
        places.extend(folder.parent().map(|prefix| prefix.join("lib/tabane")));
    }
    for installed in ["/usr/local/lib/tabane", "/usr/lib/tabane"].map(PathBuf::from) {
        if !places.contains(&installed) {
            places.push(installed);
        }
    }
    places
}
