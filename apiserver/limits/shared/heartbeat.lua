-- Notes that this node lives. KEYS: the nodes, the mark of this data. ARGV: the node, how long a silent node counts in milliseconds, and
-- a mark for data that has none: data that was lost comes back with another.
--
-- Answer: {the time in microseconds, the mark, the living nodes...}.
local t = redis.call('TIME')
local ms = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
redis.call('ZADD', KEYS[1], ms, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ms - tonumber(ARGV[2]))
redis.call('SET', KEYS[2], ARGV[3], 'NX')
local answer = { t[1] .. string.format('%06d', tonumber(t[2])), redis.call('GET', KEYS[2]) }
for _, node in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do answer[#answer + 1] = node end
return answer
