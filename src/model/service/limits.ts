/** Limits of one definition. A request that exceeds them is rejected before its entries are read. */

/**
 * Members of one federation. With a larger value, a decision about a job and a change of the federation take longer, both in
 * proportion (`bench/simulate`).
 */
export const MAX_MEMBERS = 1_000;

/** Inputs, outputs, and filters of each. More than any service needs, and few enough to compare all pairs. */
export const MAX_STORAGE_PATHS = 100;

/** Allowed users of one service. Each of its buckets stores the whole list. */
export const MAX_ALLOWED_USERS = 5_000;

/**
 * Entries of one map of the definition: variables, secrets, labels, annotations, headers. Higher: one request keeps the manager
 * busy for seconds, because every entry is checked, encrypted and stored. Lower: large generated environments do not fit.
 */
export const MAX_MAP_ENTRIES = 1_000;

/** Clusters and weights of them, storage providers of each type. Members name them, so there is no use for many more. */
export const MAX_NAMED_PLACES = 1_100;

/** Ports, pull secrets and arguments: what a container may have of each. */
export const MAX_CONTAINER_OPTIONS = 100;

/**
 * Folders of a service in the store. With a lower limit a course with many users and isolation USER does not fit into one
 * service; with a higher one a single request slows down the manager, which holds all folders in memory.
 */
export const MAX_FOLDERS = 10_000;
