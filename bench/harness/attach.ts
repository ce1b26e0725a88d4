/**
 * Loaded into every process of a benchmark before its own program (`node --import`): tells its CPU
 * time when asked, and ends it when the benchmark has ended, killed or not.
 */
process.on('message', () => process.send?.(process.cpuUsage()));
process.on('disconnect', () => process.kill(process.pid, 'SIGTERM'));
