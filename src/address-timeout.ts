import { setDefaultAutoSelectFamilyAttemptTimeout } from 'node:net';

/**
 * How long a connection attempt to one of several addresses of a host may take before the next address is tried. Node
 * abandons the attempt then, and its default (500 ms) ends before a lost packet is sent again, after one second. The
 * next address may be of a family that this machine cannot use. Two attempts fit into the connect timeouts.
 */
const ADDRESS_TIMEOUT_MS = 2_500;

// For all connections of this thread, because `pg` has no option for it.
setDefaultAutoSelectFamilyAttemptTimeout(ADDRESS_TIMEOUT_MS);
