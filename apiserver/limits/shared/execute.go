package shared

import (
	"context"

	"github.com/redis/rueidis"
)

// execute runs a script. It returns the error of ctx when that ends, even if the client does not return: a client that
// connects to a silent Redis ignores the deadline of its callers for more than a second. done is called when the client
// has returned, so that a slot for the call bounds the goroutines too.
func execute(ctx context.Context, script *rueidis.Lua, client rueidis.Client, keys, args []string, done func()) rueidis.RedisResult {
	answer := make(chan rueidis.RedisResult, 1)
	go func() {
		got := script.Exec(ctx, client, keys, args)
		done()
		answer <- got
	}()
	select {
	case got := <-answer:
		return got
	case <-ctx.Done():
		return rueidis.NewErrorResult(ctx.Err())
	}
}
