// Package engine is the shared life of a declared resource: resolve its references, claim what it must own alone, hold it
// with a finalizer, check it, translate it, put it into the store, report. A kind supplies its references, claims,
// checks and translation, and nothing else.
//
// The rules it keeps, whatever the kind:
//   - It compares what the store holds on every pass, never only generation with observedGeneration.
//   - It owns nothing until proven: claims are judged before the finalizer, the finalizer comes before any effect, and
//     deletion touches only documents that record this resource's UID.
//   - Steady state writes nothing, to the API server or to the store.
//   - One status patch a pass, at its end, and only if something changed.
//   - What was last accepted stays in force while an edit is invalid or a reference is missing.
package engine
