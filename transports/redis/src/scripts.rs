//! What has to happen on the server in one step: to move an entry somewhere else and be done with it, but
//! only while it is still ours. A step that fails leaves the entry where it was.

use std::sync::LazyLock;

use redis::Script;

/// Puts entries back for one group alone: copies each to the group's own stream with the attempts spent
/// and settles the original. Answers those that were not ours any more.
///
/// The copy is made on the server, so that it is the same to the byte, also when it could not be read. One
/// that brought no identity gets the one it was delivered with, and the content type it did not name, because
/// one of ours that names none is JSON.
pub(crate) static PUT_BACK: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local lost = {}
        for i = 4, #ARGV, 4 do
          local id = ARGV[i]
          local held = redis.call('XPENDING', KEYS[1], ARGV[1], id, id, 1, ARGV[2])
          local found = held[1] and redis.call('XRANGE', KEYS[1], id, id)
          if found and found[1] then
            local old, new, known = found[1][2], {}, {}
            for n = 1, #old, 2 do
              if old[n] ~= 'punctual-attempt' then
                known[old[n]] = true
                new[#new + 1] = old[n]
                new[#new + 1] = old[n + 1]
              end
            end
            local function note(name, value)
              if not known[name] then
                new[#new + 1] = name
                new[#new + 1] = value
              end
            end
            if not known['punctual-id'] then note('content-type', ARGV[3]) end
            note('punctual-id', ARGV[i + 2])
            note('punctual-created', ARGV[i + 3])
            note('punctual-attempt', ARGV[i + 1])
            redis.call('XADD', KEYS[2], '*', unpack(new))
            redis.call('XACK', KEYS[1], ARGV[1], id)
            if KEYS[1] == KEYS[2] then redis.call('XDEL', KEYS[1], id) end
          else
            lost[#lost + 1] = id
          end
        end
        return lost",
    )
});

/// Writes a dead letter and settles the original; answers 1, or 0 when it was not ours any more.
pub(crate) static REJECT: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local held = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[3], ARGV[3], 1, ARGV[2])
        if not held[1] then return 0 end
        redis.call('XADD', KEYS[2], '*', unpack(ARGV, 5))
        redis.call('XACK', KEYS[1], ARGV[1], ARGV[3])
        if ARGV[4] == 'own' then redis.call('XDEL', KEYS[1], ARGV[3]) end
        return 1",
    )
});

/// Keeps entries that are still ours from being taken over; answers how many were not.
pub(crate) static EXTEND: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local lost = 0
        for i = 3, #ARGV do
          local held = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1, ARGV[2])
          if held[1] then
            redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[i], 'JUSTID')
          else
            lost = lost + 1
          end
        end
        return lost",
    )
});

/// Takes consumers off a group that have nothing in hand, because with a consumer the server also forgets
/// what it has: the one of this name, or all of ours that have been idle for so long.
pub(crate) static SWEEP: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local gone = 0
        for _, found in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
          local one = {}
          for n = 1, #found, 2 do one[found[n]] = found[n + 1] end
          local ours = string.sub(one.name, 1, #ARGV[2]) == ARGV[2]
          if ours and one.pending == 0 and one.idle >= tonumber(ARGV[3]) then
            redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], one.name)
            gone = gone + 1
          end
        end
        return gone",
    )
});
