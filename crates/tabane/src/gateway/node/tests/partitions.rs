//! Nodes cannot reach each other, in every way.
