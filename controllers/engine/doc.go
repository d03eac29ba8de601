// Package engine is the shared life of a declared resource: resolve its references, check it, reserve what it must own
// alone, hold it with a finalizer, translate it, put it into the store, report.
//
// A kind supplies its references, reservations, checks and translation. Where its content needs more than its spec it
// also makes that (Prepare) and undoes it (Cleanup), names further events and indexes, and says what a retained
// document is.
//
// The rules the engine keeps, whatever the kind: - It compares what the store holds in every reconcile, never only
// generation with observedGeneration. - It owns nothing until proven: what the spec reserves is decided about before
// the finalizer, what Prepare made before the put; the finalizer comes before any effect, and deletion touches only
// documents that record this resource's UID. - Nothing crosses namespaces: a resource displaces only what has its own
// namespace, but for what is its own by name alone. - Steady state writes nothing, to the API server or to the store. -
// One status patch a reconcile, at its end, and only if something changed. - The last accepted content stays active
// while an edit is invalid or a reference is missing.
package engine
