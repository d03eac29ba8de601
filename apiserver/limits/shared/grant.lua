-- Grants leases of one group's counters: every counter that is asked for gets at least one request, or none is charged at all.
--
-- KEYS: the counters of one slot, then for each the mark that this node leaves: the number of its last batch. ARGV: the number of
-- nodes, and for each counter two texts. The second is the number of the batch of value 7. The first is a byte and ten doubles, which Redis
-- reads faster than as many texts:
--   0 for a window of cells, 1 for a calendar period
--   1 limit
--   2 window: length of a cell in microseconds; calendar: end of the present period, in microseconds of Unix time
--   3 how long a lease may be spent, in microseconds
--   4 the most that is wanted; 0 asks for nothing and is never denied
--   5 how many of an earlier lease come back, and 6 the cell (window) or the period's end (calendar) that they were charged to
--   7 how many were admitted here while Redis was away
--   8 how many this node holds or admitted in the window, and 9 whether it left its mark there already: a mark that is gone means that
--     the counter was lost with it, and what the node holds is charged anew
--   10 how long the mark lives, in milliseconds
--
-- Answer: {1 if granted, the time, then for each counter: granted, remaining, wait in microseconds, cell or period's end, lease in
-- microseconds}. Redis' clock is the only one; a denial writes nothing but what came back.
--
-- A window is one string: the newest cell and the sum of all as doubles, then CELLS counts of 32 bits, each at its cell's index modulo
-- CELLS. Most calls come in the newest cell, and write that cell and the sum alone: the key's life was set when the cell became the newest,
-- and is longer than the window from the cell's end.
local CELLS, HEAD, LARGEST = 66, 16, 9007199254740992
local call, pack, read, sub = redis.call, struct.pack, struct.unpack, string.sub
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
local nodes, count = tonumber(ARGV[1]), #KEYS / 2
local t = call('TIME')
local now = t[1] * 1000000 + t[2]
local held = call('MGET', unpack(KEYS)) -- of a key that holds no text, it is false: such a key is damaged, and is written anew

-- cell returns what was charged to one cell of a window.
local function cell(c, at)
  return (read('>I4', c.text, HEAD + 1 + 4 * (at % CELLS)))
end

-- charge adds to one cell, or takes away from it.
local function charge(c, at, n)
  local from, before = HEAD + 4 * (at % CELLS), cell(c, at)
  local after = min(4294967295, before + n)
  c.text = sub(c.text, 1, from) .. pack('>I4', after) .. sub(c.text, from + 5)
  c.total, c.dirty, c.whole = c.total + after - before, true, true
end

-- sane returns a count that was read, 0 for what no count can be: a damaged counter counts anew, and is no failure.
local function sane(n)
  if not n or n ~= n or n < 0 or n > LARGEST then return 0 end
  return n
end

-- load reads a window as it is at the cell `at`.
local function load(c, text, at)
  c.at, c.total, c.whole = at, 0, true
  if text and #text == HEAD + 4 * CELLS then
    local newest, total = read('>dd', text)
    if sane(newest) == newest and sane(total) == total and newest <= at + CELLS then
      if newest > at then c.at = newest end -- the clock went back: stay at the newest cell
      if at - newest < CELLS then
        c.total, c.text, c.whole = total, text, newest < at
        for i = newest + 1, at do
          local gone = cell(c, i)
          if gone > 0 then charge(c, i, -gone) end
        end
        c.dirty = false -- the next call clears the same cells
        return
      end
    end
  end
  c.text = string.rep('\0', HEAD + 4 * CELLS)
end

local all, granted = {}, true
for i = 1, count do
  local kind, limit, size, lease, want, back, from, add, own, known, lives = read('>Bdddddddddd', ARGV[2 * i])
  local c = {
    kind = kind, limit = limit, size = size, lease = lease, want = want, lives = lives, at = size, total = 0, text = '', dirty = false, whole = false,
    mark = false, over = false, granted = 0, wait = 0,
  }
  local mark = held[count + i]
  if mark and not mark:find('^%d+$') then mark = false end
  if not mark then
    c.mark = true
    if known == 1 then add = own end
  elseif add > 0 then -- once, however often it is asked
    if mark == ARGV[2 * i + 1] then add = 0 else c.mark = true end
  end
  if kind == 0 then
    load(c, held[i], floor(now / size))
    if back > 0 and from > c.at - CELLS and from <= c.at then
      local n = min(back, cell(c, from))
      if n > 0 then charge(c, from, -n) end
    end
    if add > 0 then charge(c, c.at, add) end
    if c.total >= limit then
      local left = c.total
      for j = c.at - CELLS + 1, c.at do
        left = left - cell(c, j)
        if left < limit then
          c.wait = (j + CELLS) * size - now
          break
        end
      end
    end
  else
    c.total = sane(tonumber(held[i] or '0'))
    if back > 0 and from == size then
      c.total = c.total - min(back, c.total)
      c.dirty = true
    end
    if add > 0 then c.total, c.dirty = c.total + add, true end
    if size <= now then -- the node's period is over by this clock: it must ask for the next
      c.over = true
    end
    if c.total >= limit then c.wait = size - now end
    c.lease = min(lease, size - now)
  end
  if want > 0 and (c.over or c.total >= limit) then granted = false end
  all[i] = c
end

local answer = { granted and 1 or 0, now }
for i, c in ipairs(all) do
  local n = 0
  if granted and c.want > 0 then
    n = max(1, min(c.want, floor((c.limit - c.total) / (2 * nodes))))
    c.granted = n
  end
  if c.kind == 0 and (n > 0 or c.dirty) then
    local from, before = HEAD + 4 * (c.at % CELLS), cell(c, c.at)
    local after = min(4294967295, before + n)
    c.total = c.total + after - before
    if c.whole then
      call('SET', KEYS[i], pack('>dd', c.at, c.total) .. sub(c.text, HEAD + 1, from) .. pack('>I4', after) .. sub(c.text, from + 5),
        'PX', ceil(c.size * (CELLS + 1) / 1000) + 1000)
    else
      call('SETRANGE', KEYS[i], HEAD / 2, pack('>d', c.total))
      call('SETRANGE', KEYS[i], from, pack('>I4', after))
    end
  elseif c.kind == 1 and (n > 0 or c.dirty) then
    c.total = c.total + n
    call('SET', KEYS[i], string.format('%.0f', c.total), 'PX', max(1, ceil((c.size - now) / 1000)) + 3600000)
  end
  if c.mark then call('SET', KEYS[count + i], ARGV[2 * i + 1], 'PX', c.lives) end
  local to = 5 * i - 2
  answer[to], answer[to + 1], answer[to + 2] = c.granted, max(0, c.limit - c.total), c.wait
  answer[to + 3], answer[to + 4] = c.at, max(0, c.lease)
end
return answer
