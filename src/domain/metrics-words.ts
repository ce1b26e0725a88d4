/** Where Prometheus reads. */
export const METRICS_PATH = '/metrics';

/** What is said at every other path of that port, with 404: by it `nutpost doctor` knows the port for ours. */
export const NO_METRICS_HERE = `The metrics are at ${METRICS_PATH}.`;
