-- Grants leases of one group's counters: every counter that is asked for gets at least one request, or none is charged at all.
--
-- KEYS: the counters of one slot, then for each the mark that this node leaves: the number of its last batch. ARGV: the number of
-- nodes, and for each counter twelve values:
--   1 kind: "w" for a window of cells, "c" for a calendar period
--   2 limit
--   3 w: length of a cell in microseconds; c: end of the present period, in microseconds of Unix time
--   4 w: how long a lease may be spent, in microseconds; c: the same
--   5 the most that is wanted; 0 asks for nothing and is never denied
--   6 how many of an earlier lease come back, and 7 the cell (w) or the period's end (c) that they were charged to
--   8 how many were admitted here while Redis was away, and 9 the number of that batch
--   10 how many this node holds or admitted in the window, and 11 whether it left its mark there already: a mark that is gone means that
--      the counter was lost with it, and what the node holds is charged anew
--   12 how long the mark lives, in milliseconds
--
-- Answer: {1 if granted, the time, then for each counter: granted, remaining, wait in microseconds, cell or period's end, lease in
-- microseconds}. Redis' clock is the only one; a denial writes nothing but what came back.
local CELLS = 66
local nodes, count = tonumber(ARGV[1]), #KEYS / 2
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000000 + tonumber(t[2])
local format = '>d' .. string.rep('I4', CELLS)

-- load returns a window's cells, by their index modulo CELLS, as they are at the cell `at`.
local function load(key, at)
  local cells, total = {}, 0
  for i = 0, CELLS - 1 do cells[i] = 0 end
  local raw = redis.call('GET', key)
  if raw and #raw == 8 + 4 * CELLS then
    local values = { struct.unpack(format, raw) }
    local newest = values[1]
    if newest > at then at = newest end -- the clock went back: stay at the newest cell
    for i = newest - CELLS + 1, newest do
      if i > at - CELLS then
        local n = values[2 + i % CELLS]
        cells[i % CELLS] = n
        total = total + n
      end
    end
  end
  return cells, total, at
end

local all, granted = {}, 1
for i = 1, count do
  local key, a = KEYS[i], 1 + (i - 1) * 12
  local c = {
    kind = ARGV[a + 1], limit = tonumber(ARGV[a + 2]), size = tonumber(ARGV[a + 3]), lease = tonumber(ARGV[a + 4]),
    want = tonumber(ARGV[a + 5]), back = tonumber(ARGV[a + 6]), from = tonumber(ARGV[a + 7]), add = tonumber(ARGV[a + 8]), batch = ARGV[a + 9],
    key = key, dirty = false, granted = 0, wait = 0,
  }
  local mark = redis.call('GET', KEYS[count + i])
  if not mark then
    c.mark = KEYS[count + i]
    if ARGV[a + 11] == '1' then c.add = tonumber(ARGV[a + 10]) end
  elseif c.add > 0 then -- once, however often it is asked
    if mark == c.batch then c.add = 0 else c.mark = KEYS[count + i] end
  end
  c.lives = ARGV[a + 12]
  if c.kind == 'w' then
    c.cells, c.total, c.at = load(key, math.floor(now / c.size))
    if c.back > 0 and c.from > c.at - CELLS and c.from <= c.at then
      local n = math.min(c.back, c.cells[c.from % CELLS])
      c.cells[c.from % CELLS] = c.cells[c.from % CELLS] - n
      c.total = c.total - n
      c.dirty = n > 0
    end
    if c.add > 0 then
      c.cells[c.at % CELLS] = math.min(4294967295, c.cells[c.at % CELLS] + c.add)
      c.total, c.dirty = c.total + c.add, true
    end
    if c.total >= c.limit then
      local left = c.total
      for j = c.at - CELLS + 1, c.at do
        left = left - c.cells[j % CELLS]
        if left < c.limit then
          c.wait = (j + CELLS) * c.size - now
          break
        end
      end
    end
  else
    c.at = c.size
    local raw = redis.call('GET', key)
    c.total = tonumber(raw or '0')
    if c.back > 0 and c.from == c.at then
      c.total = c.total - math.min(c.back, c.total)
      c.dirty = true
    end
    if c.add > 0 then c.total, c.dirty = c.total + c.add, true end
    if c.size <= now then -- the node's period is over by this clock: it must ask for the next
      c.over = true
    end
    if c.total >= c.limit then c.wait = c.size - now end
    c.lease = math.min(c.lease, c.size - now)
  end
  if c.want > 0 and (c.over or c.total >= c.limit) then granted = 0 end
  all[i] = c
end

local answer = { granted, string.format('%.0f', now) }
for _, c in ipairs(all) do
  if granted == 1 and c.want > 0 then
    c.granted = math.max(1, math.min(c.want, math.floor((c.limit - c.total) / (2 * nodes))))
    c.total, c.dirty = c.total + c.granted, true
    if c.kind == 'w' then c.cells[c.at % CELLS] = c.cells[c.at % CELLS] + c.granted end
  end
  if c.dirty then
    if c.kind == 'w' then
      local values = {}
      for i = 0, CELLS - 1 do values[i + 1] = c.cells[i] end
      redis.call('SET', c.key, struct.pack(format, c.at, unpack(values)), 'PX', math.ceil(c.size * (CELLS + 1) / 1000) + 1000)
    else
      redis.call('SET', c.key, string.format('%.0f', c.total), 'PX', math.max(1, math.ceil((c.size - now) / 1000)) + 3600000)
    end
  end
  if c.mark then redis.call('SET', c.mark, c.batch, 'PX', c.lives) end
  answer[#answer + 1] = c.granted
  answer[#answer + 1] = string.format('%.0f', math.max(0, c.limit - c.total))
  answer[#answer + 1] = string.format('%.0f', c.wait)
  answer[#answer + 1] = string.format('%.0f', c.at)
  answer[#answer + 1] = string.format('%.0f', math.max(0, c.lease))
end
return answer
