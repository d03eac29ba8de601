package engine

import "time"

// A calendar period's state is one word of its head: the number of the period in the upper half, the count in the
// lower. Days are numbered since 1970, months since year 0, both of UTC. If the wall clock is set back, the state stays
// in the newest period, so there is no new quota.

const dayLength = int64(24 * time.Hour / time.Microsecond)

func (w *window) periodUsed(s state, wall int64) int64 {
	period := w.period(wall)
	if period > int64(s.head[0]>>32) {
		s.head[0] = uint64(period) << 32
	}
	return int64(uint32(s.head[0]))
}

func (w *window) periodWait(s state, wall, limit int64) int64 {
	if int64(uint32(s.head[0])) < limit {
		return 0
	}
	return w.end(int64(s.head[0]>>32)) - wall
}

// period is the number of the period a moment lies in.
func (w *window) period(wall int64) int64 {
	if w.kind == calendarDay {
		return wall / dayLength
	}
	year, month := monthOf(wall / dayLength)
	return year*12 + month
}

// end is the moment a period ends, in microseconds of Unix time.
func (w *window) end(period int64) int64 {
	if w.kind == calendarDay {
		return (period + 1) * dayLength
	}
	period++
	return time.Date(int(period/12), time.Month(period%12+1), 1, 0, 0, 0, 0, time.UTC).UnixMicro()
}

// monthOf returns the year and the month, January being 0, of a day since 1970: the arithmetic of the Gregorian
// calendar with years that begin in March, so that the leap day is a year's last.
func monthOf(day int64) (year, month int64) {
	day += 719468
	era := day / 146097
	dayOfEra := day - era*146097
	yearOfEra := (dayOfEra - dayOfEra/1460 + dayOfEra/36524 - dayOfEra/146096) / 365
	dayOfYear := dayOfEra - (365*yearOfEra + yearOfEra/4 - yearOfEra/100)
	month = (5*dayOfYear+2)/153 + 2
	year = yearOfEra + era*400
	if month >= 12 {
		return year + 1, month - 12
	}
	return year, month
}
