package sqlstore

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestBackupTriesEveryHostOfURL(t *testing.T) {
	t.Parallel()
	for url, want := range map[string][2]string{
		"postgres://cardea@a:5432,b:5433/cardea?target_session_attrs=read-write&sslmode=prefer": {"a,b", "5432,5433"},
		"postgres://cardea@a/cardea?sslmode=disable":                                            {"a", "5432"},
		"postgres:///cardea?host=a,b&port=1,2&user=cardea&sslmode=disable":                      {"a,b", "1,2"},
	} {
		config, err := pgx.ParseConfig(url)
		if err != nil {
			t.Fatal(err)
		}
		if hosts, ports := hostsOf(config); hosts != want[0] || ports != want[1] {
			t.Errorf("%s: %q %q, want %q", url, hosts, ports, want)
		}
	}
}
