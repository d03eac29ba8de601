package sqlstore

import (
	"errors"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	api "go.opentelemetry.io/otel/trace"

	"github.com/cardea-iam/cardea/internal/tracing"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

// Each transaction within a traced operation has a span. The span's attributes are the engine and the kind of the
// transaction, and contain no stored data.
func TestTransactionsHaveSpans(t *testing.T) {
	t.Parallel()
	for engine, url := range engines {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			recorder := tracetest.NewSpanRecorder()
			tracer := tracing.New(trace.NewTracerProvider(trace.WithSpanProcessor(recorder)))
			s := openAt(t, url(t), Options{Tracer: tracer})
			if err := s.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			term, err := s.Acquire(t.Context(), "install", time.Second)
			if err != nil {
				t.Fatal(err)
			}
			if n := len(recorder.Ended()); n != 0 {
				t.Fatalf("%d spans outside of a traced operation", n)
			}
			ctx, around := tracer.Begin(t.Context(), "around")
			declined := errors.New("declined")
			var claimed []people.Message
			for _, step := range []struct {
				what string
				do   func() error
				want []string
			}{
				{"a put", func() error {
					_, err := s.Put(ctx, term, store.Put{Document: store.Document{Owner: store.Owner{Identity: store.Identity{Kind: "K", Namespace: "n", Name: "canary"}, UID: "u"}, Generation: 1, ID: 1, Hash: "h", Payload: []byte("{}")}})
					return err
				}, []string{"store write"}},
				{"a statement alone", func() error {
					_, err := s.Stored(ctx, store.Identity{Kind: "K", Namespace: "n", Name: "canary"})
					return err
				}, []string{"store read"}},
				{"a snapshot", func() error { _, _, err := s.Load(ctx); return err }, []string{"store read"}},
				{"a change", func() error {
					return s.Change(ctx, "n/canary", func(tx people.Tx) error {
						return tx.Challenges().InsertMessage(people.Message{ID: 1, Channel: people.ChannelMail, Recipient: "canary@acme.example", CreatedAt: time.Now(), ExpiresAt: time.Now().Add(time.Hour)})
					})
				}, []string{"store write"}},
				{"a change that its caller declines", func() error {
					if err := s.Change(ctx, "n/canary", func(people.Tx) error { return declined }); !errors.Is(err, declined) {
						return err
					}
					return nil
				}, []string{"store write"}},
				{"a claim", func() (err error) {
					claimed, err = s.LeaseMessages(t.Context(), time.Now().Add(time.Minute), time.Minute, people.Claim{Limit: 1})
					return err
				}, nil},
			} {
				before := len(recorder.Ended())
				if err := step.do(); err != nil {
					t.Fatalf("%s: %v", step.what, err)
				}
				var names []string
				for _, span := range recorder.Ended()[before:] {
					names = append(names, span.Name())
					if span.Parent().SpanID() != around.SpanContext().SpanID() || span.Status().Code != codes.Unset || len(span.Attributes()) != 2 || span.Attributes()[0].Value.AsString() != map[string]string{"sqlite": "sqlite", "postgres": "postgresql"}[engine] {
						t.Errorf("%s: %v", step.what, span)
					}
				}
				if !slices.Equal(names, step.want) {
					t.Errorf("%s: spans %v, want %v", step.what, names, step.want)
				}
			}
			if len(claimed) != 1 {
				t.Fatalf("%d messages", len(claimed))
			}
			config := api.NewSpanStartConfig(tracing.LinkTo(claimed[0].Trace)...)
			links := config.Links()
			if len(links) != 1 || links[0].SpanContext.TraceID() != around.SpanContext().TraceID() {
				t.Errorf("a message is kept with the trace %q", claimed[0].Trace)
			}
			before := len(recorder.Ended())
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if _, _, err := s.Load(ctx); err == nil {
				t.Fatal("a read of a closed store succeeded")
			}
			if failed := recorder.Ended()[before:]; len(failed) != 1 || failed[0].Status().Code != codes.Error || failed[0].Status().Description != "" || len(failed[0].Events()) != 0 {
				t.Errorf("the failed read: %v", failed)
			}
		})
	}
}
