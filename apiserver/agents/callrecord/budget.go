package callrecord

const (
	// keptRate is how many bytes of bodies a server keeps of a deployment per second, 10 GiB a day, and keptBurst how many
	// at once.
	keptRate, keptBurst = 10 << 30 / (24 * 60 * 60), 512 << 20
	// refusedRate is how many records of refused calls a server stores of a deployment per second, and refusedCount how
	// many at once.
	refusedRate = 10
)
