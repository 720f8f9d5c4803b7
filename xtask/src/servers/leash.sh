# Serves while somebody holds the writing end of standard input; see running.rs.
folder=$1 record=$2 signal=$3
shift 3
exec 3<&0 </dev/null
"$@" 3<&- &
server=$!
echo "$server" > "$folder/pid"
# A shell's background command reads from nothing unless told otherwise, hence the copy on 3.
{ cat <&3 >/dev/null; : > "$folder/stopping"; kill -s "$signal" "$server" 2>/dev/null; } &
watch=$!
exec 3<&-
wait "$server"
status=$?
if [ -e "$folder/stopping" ]; then
    rm -rf "$folder" "$record"
else
    # It ended by itself: what it printed is kept, and nobody signals an id that may be another's soon.
    kill -s KILL "$watch" 2>/dev/null
fi
exit "$status"
