package account_test

import (
	"reflect"
	"testing"

	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/store/people"
)

// counters returns the counters of failed attempts for an email and for the client's wide network.
func (w *world) counters(email string) (all []people.Failure, around int) {
	w.T.Helper()
	w.change(func(u *account.Unit) error {
		for scope, subject := range map[string]string{"password": email + " " + u.Client.Network, "password-strangers": email} {
			f, err := u.Limits().Failure(scope, subject)
			if err != nil {
				return err
			}
			f.UpdatedAt = now
			all = append(all, f)
		}
		if all[0].Scope > all[1].Scope {
			all[0], all[1] = all[1], all[0]
		}
		counted, err := u.Limits().Counted("password-neighbourhood", u.Client.WideNetwork, u.Now)
		around = counted.Count
		return err
	})
	return all, around
}

func TestTakenBackPasswordTryIsNotCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.account("ada@example.com")
	var try account.PasswordTry
	count := func(u *account.Unit) (err error) { try, err = u.CountPasswordTry("ada@example.com"); return err }
	for range 10 {
		w.change(count)
	}
	before, around := w.counters("ada@example.com")
	w.change(count)
	if try.Wait(now) == 0 {
		t.Fatal("the eleventh try brings no wait")
	}
	if counted, more := w.counters("ada@example.com"); reflect.DeepEqual(counted, before) || more != around+1 {
		t.Fatalf("not counted: %+v, %d", counted, more)
	}
	w.change(func(u *account.Unit) error { return u.TakeBackPasswordTry(try) })
	if after, less := w.counters("ada@example.com"); !reflect.DeepEqual(after, before) || less != around {
		t.Errorf("%+v, %d, before %+v, %d", after, less, before, around)
	}
	w.change(func(u *account.Unit) error { return u.CheckPasswordTry("ada@example.com") })
}
