package rollup

import (
	"database/sql"
	"errors"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/cardea-iam/cardea/internal/daylog"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

// kindList is all kinds of events, for IN: with the kinds listed, the engines use the primary key.
const kindList = `'` + people.EventSignIn + `', '` + people.EventSignUp + `', '` + people.EventOrganization + `', '` + people.EventWorkspace + `'`

// errDayDamaged means that a set or a log does not match its checksum.
var errDayDamaged = errors.New("analytics: a rolled-up day is damaged: run `cardea analytics verify` to find it")

// dayRow is the row of a rolled-up day without its set of users and its log.
type dayRow struct {
	day, version, signIns, users, signUps, organizations, workspaces int64
	usersSum, logSum                                                 int64
}

// MonthRow is the row of a rolled-up month without its set of users.
type MonthRow struct{ Month, Version, usersSum int64 }

// totals are counted over all rolled-up events: the assigned user numbers, and the sign-ups.
type totals struct{ ordinals, signUps int64 }

// MonthOf returns the month of a day, both counted since January 1970.
func MonthOf(day int64) int64 {
	year, month, _ := time.UnixMicro(day * MicrosADay).UTC().Date()
	return int64(year-1970)*12 + int64(month) - 1
}

// FirstDayOf returns the first day of a month.
func FirstDayOf(month int64) int64 {
	return time.Date(1970, time.January+time.Month(month), 1, 0, 0, 0, 0, time.UTC).UnixMicro() / MicrosADay
}

// sum returns a blob's checksum as it is stored.
func sum(blob []byte) int64 { return int64(xxhash.Sum64(blob)) }

// totalsOf reads the totals; lock is the end of the SELECT.
func totalsOf(tx *db.Tx, lock string) (totals, error) {
	var t totals
	_, err := db.List(tx, func(row *sql.Rows, _ *struct{}) error {
		var what string
		var total int64
		err := row.Scan(&what, &total)
		switch what {
		case totalOrdinals:
			t.ordinals = total
		case totalSignUps:
			t.signUps = total
		}
		return err
	}, `SELECT what, total FROM sealed_totals WHERE deployment = :deployment`+lock)
	return t, err
}

const (
	totalOrdinals = "ordinals"
	totalSignUps  = "signups"
)

// DayRows reads the rolled-up days of the deployment in order: from the day from (included) to the day to (excluded),
// counted since 1970.
func DayRows(tx *db.Tx, from, to int64) ([]dayRow, error) {
	return db.List(tx, func(row *sql.Rows, d *dayRow) error {
		return row.Scan(&d.day, &d.version, &d.signIns, &d.users, &d.signUps, &d.organizations, &d.workspaces, &d.usersSum, &d.logSum)
	}, `SELECT day, version, signins, users, signups, organizations, workspaces, users_sum, log_sum FROM sealed_days
		WHERE deployment = :deployment AND day >= ? AND day < ? ORDER BY day`, from, to)
}

func monthRows(tx *db.Tx, from, to int64) ([]MonthRow, error) {
	return db.List(tx, func(row *sql.Rows, m *MonthRow) error { return row.Scan(&m.Month, &m.Version, &m.usersSum) },
		`SELECT month, version, users_sum FROM sealed_months WHERE deployment = :deployment AND month >= ? AND month < ? ORDER BY month`, from, to)
}

// readDayLog reads the log of a rolled-up day.
func readDayLog(tx *db.Tx, d dayRow) ([]byte, error) {
	return readBlob(tx, d.logSum, `SELECT log FROM sealed_days WHERE deployment = :deployment AND day = ?`, d.day)
}

// ReadDaySet reads the users of a rolled-up day.
func ReadDaySet(tx *db.Tx, d dayRow) (*daylog.Users, error) {
	return readUserSet(tx, d.usersSum, `SELECT user_set FROM sealed_days WHERE deployment = :deployment AND day = ?`, d.day)
}

// readMonthSet reads the users of a rolled-up month.
func readMonthSet(tx *db.Tx, m MonthRow) (*daylog.Users, error) {
	return readUserSet(tx, m.usersSum, `SELECT user_set FROM sealed_months WHERE deployment = :deployment AND month = ?`, m.Month)
}

func readUserSet(tx *db.Tx, want int64, query string, args ...any) (*daylog.Users, error) {
	blob, err := readBlob(tx, want, query, args...)
	if err != nil {
		return nil, err
	}
	return daylog.DecodeUsers(blob)
}

// readBlob reads a blob, which must have the checksum of its row.
func readBlob(tx *db.Tx, want int64, query string, args ...any) ([]byte, error) {
	var blob []byte
	found, err := tx.Get([]any{&blob}, query, args...)
	if err == nil && (!found || sum(blob) != want) {
		err = errDayDamaged
	}
	return blob, err
}

// putDayRow writes a day. It counts the columns of the row from the day's events.
func putDayRow(tx *db.Tx, d dayRow, whole *daylog.Day, users *daylog.Users) error {
	log := whole.Encode()
	set, err := daylog.EncodeUsers(users)
	if err != nil {
		return err
	}
	counts := whole.Counts()
	return tx.Exec(`INSERT INTO sealed_days
		(deployment, day, version, signins, users, signups, organizations, workspaces, users_sum, log_sum, user_set, log)
		VALUES (:deployment, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (deployment, day) DO UPDATE SET version = excluded.version, signins = excluded.signins, users = excluded.users, signups = excluded.signups,
			organizations = excluded.organizations, workspaces = excluded.workspaces, users_sum = excluded.users_sum, log_sum = excluded.log_sum,
			user_set = excluded.user_set, log = excluded.log`,
		d.day, d.version, len(whole.SignIns), int64(users.GetCardinality()), counts.SignUps, counts.Organizations, counts.Workspaces, sum(set), sum(log), set, log)
}

// PutMonthRow writes the users of a rolled-up month, and replaces those of an earlier version.
func PutMonthRow(tx *db.Tx, m MonthRow, users *daylog.Users) error {
	set, err := daylog.EncodeUsers(users)
	if err != nil {
		return err
	}
	return tx.Exec(`INSERT INTO sealed_months (deployment, month, version, users_sum, user_set) VALUES (:deployment, ?, ?, ?, ?)
		ON CONFLICT (deployment, month) DO UPDATE SET version = excluded.version, users_sum = excluded.users_sum, user_set = excluded.user_set`,
		m.Month, m.Version, sum(set), set)
}
