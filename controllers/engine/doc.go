// Package engine implements the reconcile that all kinds share. It resolves the references of a declared resource,
// checks the resource, reserves what it must own alone, adds the finalizer, translates the resource, puts the document
// into the store, and reports.
//
// A kind supplies its references, reservations, checks and translation. If its content needs more than its spec, the
// kind also creates the rest (Prepare) and undoes that (Cleanup). It can name further events and indexes, and says
// whether its documents can be retained.
//
// The engine keeps these rules for every kind:
//   - Every reconcile compares the resource with the store's content, never only generation with observedGeneration.
//   - A resource owns nothing before its claim is decided. Reservations of the spec are decided before the finalizer is
//     added, reservations of Prepare before the put.
//   - The finalizer is added before any effect. Deletion touches only documents that record this resource's UID.
//   - A resource displaces only documents of its own namespace. The exception is a reservation that belongs to the
//     resource by its name.
//   - A reconcile in the steady state writes nothing, neither to the API server nor to the store.
//   - A reconcile writes at most one status patch, at its end, and only if something changed.
//   - The last accepted content stays active while an edit is invalid or a reference is missing.
package engine
