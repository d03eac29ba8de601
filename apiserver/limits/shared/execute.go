package shared

import (
	"context"
	"sync/atomic"

	"github.com/redis/rueidis"
)

// execute runs a script. It reports false when ctx ends before, even if the client does not return: a client that
// connects to a silent Redis ignores the deadline of its callers for more than a second. done is called when the client
// has returned, so that a slot for the call bounds the goroutines too, and then late gets the result if execute had
// reported false.
func execute(ctx context.Context, script *rueidis.Lua, client rueidis.Client, keys, args []string, done func(), late func(rueidis.RedisResult)) (rueidis.RedisResult, bool) {
	answer := make(chan rueidis.RedisResult, 1)
	var ended atomic.Bool // by the result, or by the end of ctx
	go func() {
		got := script.Exec(ctx, client, keys, args)
		done()
		if ended.CompareAndSwap(false, true) {
			answer <- got
		} else {
			late(got)
		}
	}()
	select {
	case got := <-answer:
		return got, true
	case <-ctx.Done():
	}
	if ended.CompareAndSwap(false, true) {
		return rueidis.NewErrorResult(ctx.Err()), false
	}
	return <-answer, true
}

// executeAlone is execute for a call that has no slot, and that nothing waits for.
func executeAlone(ctx context.Context, script *rueidis.Lua, client rueidis.Client, keys, args []string) rueidis.RedisResult {
	got, _ := execute(ctx, script, client, keys, args, func() {}, func(rueidis.RedisResult) {})
	return got
}
