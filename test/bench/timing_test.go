package bench

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"testing"
	"time"
)

// TestBenchTiming looks for what the time of an answer tells of what exists: wrong passwords for accounts and for nobody, phones of others
// and of nobody. Requests alternate; the row is Welch's t over the fastest nine tenths of each, which noise rarely takes beyond 4.5
// and a difference always does with enough samples. The order is swapped from one pair to the next.
func TestBenchTiming(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for a minute")
	}
	w := newPeopleWorld(t, "SQLite")
	phone := w.do(t, w.persons[0], "POST", "/me/phone-numbers", `{"phone_number":"+12025550123"}`)["id"].(string)
	post := func(p *person, path, body string, want int) time.Duration {
		begin := time.Now()
		recorder := w.ask(p, "POST", path, body)
		took := time.Since(begin)
		if recorder.Code != want {
			t.Fatalf("%s: %s", path, recorder.Body)
		}
		return took
	}
	eve := w.persons[1]
	row("OTP-08, a code for another's phone and for nobody's: Welch's t of 2,000 pairs", "|t| < 4.5", "%.1f", pairs(2000,
		func(int) time.Duration {
			return post(eve, "/me/phone-numbers/"+phone+"/attempt-verification", `{"code":"123456"}`, http.StatusNotFound)
		},
		func(int) time.Duration {
			return post(eve, "/me/phone-numbers/1234567890/attempt-verification", `{"code":"123456"}`, http.StatusNotFound)
		}))
	wrong := func(email string) time.Duration {
		return post(&person{}, "/auth/signin", fmt.Sprintf(`{"strategy":"password","email":%q,"password":"wrong wrong wrong wrong"}`, email), http.StatusUnauthorized)
	}
	// Ten failures of an account are free.
	row("SES-13, a wrong password for an account and for nobody: Welch's t of 80 pairs", "|t| < 4.5", "%.1f", pairs(80,
		func(i int) time.Duration { return wrong(fmt.Sprintf("user%d@example.com", i%people8)) },
		func(i int) time.Duration { return wrong(fmt.Sprintf("nobody%d@example.com", i%people8)) }))
}

// pairs measures two things in turn and returns Welch's t of the times they take.
func pairs(n int, first, second func(i int) time.Duration) float64 {
	var a, b []float64
	for i := range n {
		if i%2 == 0 {
			a, b = append(a, float64(first(i))), append(b, float64(second(i)))
			continue
		}
		b, a = append(b, float64(second(i))), append(a, float64(first(i)))
	}
	return welch(trim(a), trim(b))
}

// trim drops the slowest tenth: interrupts, collections.
func trim(values []float64) []float64 {
	slices.Sort(values)
	return values[:len(values)*9/10]
}

func welch(a, b []float64) float64 {
	moments := func(values []float64) (mean, variance float64) {
		for _, v := range values {
			mean += v
		}
		mean /= float64(len(values))
		for _, v := range values {
			variance += (v - mean) * (v - mean)
		}
		return mean, variance / float64(len(values)-1)
	}
	ma, va := moments(a)
	mb, vb := moments(b)
	return (ma - mb) / math.Sqrt(va/float64(len(a))+vb/float64(len(b)))
}
