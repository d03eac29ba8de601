package chaos

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// absent is the state of an object that does not exist.
const absent = ""

// journal records the responses that the load received, in a file of JSON Lines. In memory it keeps the states that
// each object may be in.
type journal struct {
	mu   sync.Mutex
	file *os.File
	may  map[string][]string
	// acknowledged and unknown count the writes by their outcome; refusals counts the responses that rejected a write.
	acknowledged, unknown int
	refusals              map[string]int
	faults                []string
}

// entry is a line of the file.
type entry struct {
	At      time.Time `json:"at"`
	Object  string    `json:"object,omitempty"`
	State   string    `json:"state"`
	Outcome string    `json:"outcome"`
	Detail  string    `json:"detail,omitempty"`
}

func newJournal(path string) (*journal, error) {
	file, err := os.Create(path)
	return &journal{file: file, may: map[string][]string{}, refusals: map[string]int{}}, err
}

func (j *journal) write(e entry) {
	e.At = time.Now().UTC()
	line, err := json.Marshal(e)
	if err == nil {
		_, err = j.file.Write(append(line, '\n'))
	}
	if err != nil {
		j.faults = append(j.faults, "the journal: "+err.Error())
	}
}

// acknowledge records that an object is in a state, and in no other.
func (j *journal) acknowledge(object, state string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.may[object] = []string{state}
	j.acknowledged++
	j.write(entry{Object: object, State: state, Outcome: "acknowledged"})
}

// wonder records that an object may have reached a state, or may still reach it, because the outcome of the write is
// unknown.
func (j *journal) wonder(object, state, why string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.may[object]) == 0 {
		j.may[object] = []string{absent}
	}
	j.may[object] = append(j.may[object], state)
	j.unknown++
	j.write(entry{Object: object, State: state, Outcome: "unknown", Detail: why})
}

// refused records a response that rejected a write, which had no effect.
func (j *journal) refused(object, why string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.refusals[why]++
	j.write(entry{Object: object, Outcome: "refused", Detail: why})
}

// fault records behavior that no fault of the schedule excuses.
func (j *journal) fault(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	j.faults = append(j.faults, time.Now().UTC().Format("15:04:05.000 ")+text)
	j.write(entry{Outcome: "fault", Detail: text})
}

// note records a fault or a recovery of the schedule.
func (j *journal) note(what string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.write(entry{Outcome: "chaos", Detail: what})
}

// settled reports whether an object has only one possible state.
func (j *journal) settled(object string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.may[object]) < 2
}

// split cuts an object's name into its kind and its own name.
func split(object string) (kind, name string) {
	kind, name, _ = strings.Cut(object, "/")
	return kind, name
}

// objects returns the objects of a kind, sorted.
func (j *journal) objects(kind string) (objects []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for object := range j.may {
		if k, _ := split(object); k == kind {
			objects = append(objects, object)
		}
	}
	slices.Sort(objects)
	return objects
}

// compare compares an object's state with the states that it may be in. It returns "" if the state is one of them.
func (j *journal) compare(object, found, where string) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if slices.Contains(j.may[object], found) {
		return ""
	}
	return fmt.Sprintf("%s is %q %s, and may be one of %q", object, found, where, j.may[object])
}

// count returns how many objects of a kind certainly exist, and how many may exist.
func (j *journal) count(kind string) (sure, perhaps int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for object, may := range j.may {
		if k, _ := split(object); k != kind {
			continue
		}
		if !slices.Contains(may, absent) {
			sure++
		}
		if slices.ContainsFunc(may, func(state string) bool { return state != absent }) {
			perhaps++
		}
	}
	return sure, perhaps
}
