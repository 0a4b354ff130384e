# A client of Basic RAPPOR in awk, which speaks the formats of `overstory audit`:
#
#     overstory audit --oracle basic-rappor --param domain_size=8 -- awk -f client.awk
#
# It reads lines of client,cohort,value, the value being a number from 0, and writes a report for each. A real client
# holds one value and stores its permanent response; this one plays all clients of an audit, and stores theirs.

BEGIN {
    FS = OFS = ","
    if (bits == "") bits = 8   # all of these can be set by -v
    if (f == "") f = 0.5
    if (p == "") p = 0.5
    if (q == "") q = 0.75
    # Numbers of 32 bits from the system. Not rand(): awk seeds it by the second, or not at all.
    random = "od -An -v -tu4 -w4 /dev/urandom"
}

# Return 1 with this probability.
function chance(probability,    drawn) {
    random | getline drawn
    return drawn + 0 < probability * 4294967296 ? 1 : 0
}

# Return a bit of the permanent response: noise in a share f of the bits, else the truth. It is drawn once.
function permanent_bit(client, value, bit,    name) {
    name = client SUBSEP value SUBSEP bit
    if (!(name in permanent))
        permanent[name] = chance(f) ? chance(0.5) : (bit == value ? 1 : 0)
    return permanent[name]
}

NR == 1 {
    print "client", "cohort", "irr"
    next
}

{
    report = ""
    for (bit = bits - 1; bit >= 0; bit--)   # most significant first
        report = report chance(permanent_bit($1, $3, bit) ? q : p)
    print $1, $2, report
}

END {
    close(random)
}
