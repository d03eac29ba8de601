package messagegateway

import (
	"encoding/json"
	"net/http"
	netmail "net/mail"
	"slices"
	"strings"
	"sync"
	"time"
)

// The channels of messages.
const (
	ChannelSMS  = "sms"
	ChannelMail = "mail"
)

// kept is how many messages the inbox holds: older ones are forgotten.
const kept = 10_000

// Message is an accepted message.
type Message struct {
	ID string `json:"id"`
	// Channel is sms or mail.
	Channel string `json:"channel"`
	To      string `json:"to"`
	From    string `json:"from"`
	// Subject is decoded; a text has none.
	Subject string `json:"subject"`
	// Body is the text, or a mail's decoded plain text with \n at the ends of lines.
	Body       string    `json:"body"`
	ReceivedAt time.Time `json:"received_at"`

	// Header is the header of a mail, as it was received. Form is the form with which a text was sent.
	Header netmail.Header      `json:"-"`
	Form   map[string][]string `json:"-"`
}

type inbox struct {
	mu       sync.Mutex
	messages []Message
}

func (i *inbox) add(m Message) {
	i.mu.Lock()
	defer i.mu.Unlock()
	m.ReceivedAt = time.Now().UTC()
	if len(i.messages) >= kept {
		i.messages = slices.Delete(i.messages, 0, len(i.messages)-kept+1)
	}
	i.messages = append(i.messages, m)
}

func (i *inbox) list(to string) []Message {
	i.mu.Lock()
	defer i.mu.Unlock()
	found := []Message{}
	for _, m := range i.messages {
		if to == "" || strings.EqualFold(m.To, to) {
			found = append(found, m)
		}
	}
	return found
}

func (i *inbox) empty() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.messages = nil
}

func (c *Gateway) getInbox(w http.ResponseWriter, r *http.Request) {
	to := r.URL.Query().Get("to")
	// A plus sign that was not escaped arrives as a blank.
	if rest, found := strings.CutPrefix(to, " "); found {
		to = "+" + strings.TrimSpace(rest)
	}
	writeJSON(w, http.StatusOK, map[string]any{"messages": c.inbox.list(strings.ReplaceAll(to, " ", "+"))})
}

func (c *Gateway) deleteInbox(w http.ResponseWriter, _ *http.Request) {
	c.inbox.empty()
	w.WriteHeader(http.StatusNoContent)
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	raw, err := json.Marshal(value)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(raw)
}
