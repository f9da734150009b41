//! The walls of the house, as far as a program can see them: who depends on whom, which rooms decide without the world,
//! what no source file may hold. ARCHITECTURE.md says why. It reads files and knows nothing of the product.

#[path = "house/manifests.rs"]
mod manifests;
#[path = "house/names.rs"]
mod names;
#[path = "house/sources.rs"]
mod sources;
#[path = "house/walls.rs"]
mod walls;
