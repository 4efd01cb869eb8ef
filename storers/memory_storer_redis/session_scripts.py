"""What runs on the server for sessions, each atomically.

Every script is given the keys `messages, ids, meta, damaged` of one session, all in one slot. `meta` has `epoch`, which
is another one after each rewrite, and `state`. Where a client stands is told by the epoch, the number of lines that it
has, and the last of them: a server that came back with older data is noticed.
"""

_COMMON = """
local MESSAGES, IDS, META, DAMAGED = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

local function stands(epoch, count, last)
  if (redis.call('HGET', META, 'epoch') or '') ~= epoch then return false end
  return count == 0 or redis.call('LINDEX', MESSAGES, count - 1) == last
end

local function keep(ttl)
  if ttl ~= '' then
    for _, key in ipairs(KEYS) do redis.call('EXPIRE', key, ttl) end
  end
end
"""

APPEND = (
    _COMMON
    + """
-- ARGV: new epoch, seconds to live ('' = for ever), then for each message: id, line. Returns how many were new.
redis.call('HSETNX', META, 'epoch', ARGV[1])
local added = 0
for i = 3, #ARGV, 2 do
  if redis.call('SADD', IDS, ARGV[i]) == 1 then
    redis.call('RPUSH', MESSAGES, ARGV[i + 1])
    added = added + 1
  end
end
keep(ARGV[2])
return added
"""
)

READ = (
    _COMMON
    + """
-- ARGV: epoch, how many lines the client has, the last of them.
-- Returns epoch, 1 when it must start over, and the lines that it lacks.
local known = tonumber(ARGV[2])
local epoch = redis.call('HGET', META, 'epoch') or ''
if stands(ARGV[1], known, ARGV[3]) then return {epoch, 0, redis.call('LRANGE', MESSAGES, known, -1)} end
return {epoch, 1, redis.call('LRANGE', MESSAGES, 0, -1)}
"""
)

REWRITE = (
    _COMMON
    + """
-- ARGV: epoch, count, last line (where the client stands), new epoch, seconds to live, how many damaged lines, these,
-- then for each message: id, line. Returns 1, or 0 when somebody else wrote meanwhile.
if redis.call('HGET', META, 'epoch') == ARGV[4] then return 1 end  -- a repeated call: done before
local known = tonumber(ARGV[2])
if redis.call('LLEN', MESSAGES) ~= known or not stands(ARGV[1], known, ARGV[3]) then return 0 end
local first = 7 + tonumber(ARGV[6])
for i = 7, first - 1 do redis.call('RPUSH', DAMAGED, ARGV[i]) end
redis.call('DEL', MESSAGES, IDS)
for i = first, #ARGV, 2 do
  redis.call('SADD', IDS, ARGV[i])
  redis.call('RPUSH', MESSAGES, ARGV[i + 1])
end
redis.call('HSET', META, 'epoch', ARGV[4])
keep(ARGV[5])
return 1
"""
)

SET_STATE = (
    _COMMON
    + """
-- ARGV: the state as read ('' = none), the new one, seconds to live, 1 when the old one cannot be read and is set
-- aside. Returns 1, or 0 when somebody else wrote meanwhile.
local now = redis.call('HGET', META, 'state') or ''
if now == ARGV[2] then return 1 end  -- a repeated call: done before
if now ~= ARGV[1] then return 0 end
if ARGV[4] == '1' then redis.call('HSET', META, 'state_unread', now) end
redis.call('HSET', META, 'state', ARGV[2])
keep(ARGV[3])
return 1
"""
)
