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
--
-- A window is one string: the newest cell and the sum of all as doubles, then CELLS counts of 32 bits, each at its cell's index modulo
-- CELLS. Most calls come in the newest cell: they read and write that one alone.
local CELLS, HEAD = 66, 16
local nodes, count = tonumber(ARGV[1]), #KEYS / 2
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000000 + tonumber(t[2])
local unused = string.rep('\0', 4 * CELLS)

-- cell returns what was charged to one cell of a window.
local function cell(c, at)
  return (struct.unpack('>I4', c.cells, 1 + 4 * (at % CELLS)))
end

-- charge adds to one cell, or takes away from it.
local function charge(c, at, n)
  local from, before = 4 * (at % CELLS), cell(c, at)
  local after = math.min(4294967295, before + n)
  c.cells = c.cells:sub(1, from) .. struct.pack('>I4', after) .. c.cells:sub(from + 5)
  c.total, c.dirty = c.total + after - before, true
end

-- sane returns a count that was read, 0 for what no count can be: a damaged counter counts anew, and is no failure.
local function sane(n)
  if not n or n ~= n or n < 0 or n > 9007199254740992 then return 0 end
  return n
end

-- read returns the text of a key; one that holds no text is deleted: it is damaged.
local function read(key)
  local raw = redis.pcall('GET', key)
  if type(raw) == 'table' then
    redis.call('DEL', key)
    return false
  end
  return raw
end

-- load reads a window as it is at the cell `at`.
local function load(c, at)
  local raw = read(c.key)
  c.at, c.total, c.cells = at, 0, unused
  if not raw or #raw ~= HEAD + 4 * CELLS then return end
  local newest, total = struct.unpack('>dd', raw)
  if sane(newest) ~= newest or sane(total) ~= total or newest > at + CELLS then return end
  if newest > at then c.at = newest end -- the clock went back: stay at the newest cell
  if at - newest >= CELLS then return end
  c.total, c.cells = total, raw:sub(HEAD + 1)
  for i = newest + 1, at do
    local gone = cell(c, i)
    if gone > 0 then charge(c, i, -gone) end
  end
  c.dirty = false -- who reads it next sees the same
end

local all, granted = {}, 1
for i = 1, count do
  local key, a = KEYS[i], 1 + (i - 1) * 12
  local c = {
    kind = ARGV[a + 1], limit = tonumber(ARGV[a + 2]), size = tonumber(ARGV[a + 3]), lease = tonumber(ARGV[a + 4]),
    want = tonumber(ARGV[a + 5]), back = tonumber(ARGV[a + 6]), from = tonumber(ARGV[a + 7]), add = tonumber(ARGV[a + 8]), batch = ARGV[a + 9],
    key = key, dirty = false, granted = 0, wait = 0,
  }
  local mark = read(KEYS[count + i])
  if mark and not mark:match('^%d+$') then mark = false end
  if not mark then
    c.mark = KEYS[count + i]
    if ARGV[a + 11] == '1' then c.add = tonumber(ARGV[a + 10]) end
  elseif c.add > 0 then -- once, however often it is asked
    if mark == c.batch then c.add = 0 else c.mark = KEYS[count + i] end
  end
  c.lives = ARGV[a + 12]
  if c.kind == 'w' then
    load(c, math.floor(now / c.size))
    if c.back > 0 and c.from > c.at - CELLS and c.from <= c.at then
      local n = math.min(c.back, cell(c, c.from))
      if n > 0 then charge(c, c.from, -n) end
    end
    if c.add > 0 then charge(c, c.at, c.add) end
    if c.total >= c.limit then
      local left = c.total
      for j = c.at - CELLS + 1, c.at do
        left = left - cell(c, j)
        if left < c.limit then
          c.wait = (j + CELLS) * c.size - now
          break
        end
      end
    end
  else
    c.at = c.size
    c.total = sane(tonumber(read(key) or '0'))
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

local answer = { granted, now }
for _, c in ipairs(all) do
  if granted == 1 and c.want > 0 then
    c.granted = math.max(1, math.min(c.want, math.floor((c.limit - c.total) / (2 * nodes))))
    if c.kind == 'w' then charge(c, c.at, c.granted) else c.total, c.dirty = c.total + c.granted, true end
  end
  if c.dirty then
    if c.kind == 'w' then
      redis.call('SET', c.key, struct.pack('>dd', c.at, c.total) .. c.cells, 'PX', math.ceil(c.size * (CELLS + 1) / 1000) + 1000)
    else
      redis.call('SET', c.key, string.format('%.0f', c.total), 'PX', math.max(1, math.ceil((c.size - now) / 1000)) + 3600000)
    end
  end
  if c.mark then redis.call('SET', c.mark, c.batch, 'PX', c.lives) end
  answer[#answer + 1] = c.granted
  answer[#answer + 1] = math.max(0, c.limit - c.total)
  answer[#answer + 1] = c.wait
  answer[#answer + 1] = c.at
  answer[#answer + 1] = math.max(0, c.lease)
end
return answer
