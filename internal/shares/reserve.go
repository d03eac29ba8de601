package shares

// WithoutReserve returns how much of a bound may be used in all for a deployment that uses own of it to use more. The
// last quarter is for deployments that use less than few.
func WithoutReserve(most, own, few int) int {
	if own >= few {
		return most - most/4
	}
	return most
}
