// @ts-nocheck
/* oxlint-disable */
/**
 * OSCAR Manager
 * latest
 * DO NOT MODIFY - This file has been generated using oazapfts.
 * See https://www.npmjs.com/package/oazapfts
 */
import * as Oazapfts from "@oazapfts/runtime";
import * as QS from "@oazapfts/runtime/query";
export const defaults: Oazapfts.Defaults<Oazapfts.CustomHeaders> = {
    headers: {},
    baseUrl: "/"
};
const oazapfts = Oazapfts.runtime(defaults);
export const servers = {};
export type Checks = {
    checks: {
        /** the cluster, a service, or a member */
        where: string;
        what: string;
        ok: boolean;
        /** works, but is not as it should be */
        warning?: boolean;
        /** what was found, or what is wrong and what to do about it */
        said: string;
    }[];
};
export type AuditRecords = {
    records: {
        audit: number;
        time: string;
        action: string;
        actor: string;
        "object"?: string;
        outcome: "success" | "refused" | "failed";
        reason?: string;
        request?: string;
        address?: string;
        count?: number;
        details?: {
            [key: string]: string | number;
        };
    }[];
};
export type ServiceDefinition = {
    /** name, unique in the cluster: 1 to 39 lower-case letters, digits and hyphens */
    name: string;
    /** id of this cluster inside `clusters` */
    cluster_id?: string;
    /** memory limit, a Kubernetes quantity */
    memory?: string | number;
    /** CPU limit, a Kubernetes quantity */
    cpu?: string | number;
    /** YuniKorn queue maximum. Not supported yet */
    total_memory?: string | number;
    /** YuniKorn queue maximum. Not supported yet */
    total_cpu?: string | number;
    /** local disk request, a Kubernetes quantity */
    ephemeral_storage_request?: string | number;
    /** one GPU */
    enable_gpu?: boolean;
    /** an SGX enclave */
    enable_sgx?: boolean;
    /** pull the image on every node beforehand; stored and shown, but without effect */
    image_prefetch?: boolean;
    /** for calls of `/run` */
    synchronous?: {
        /** pods that are kept ready for calls, on Kubernetes; 100 at most */
        min_scale?: number;
        /** calls that run concurrently, the others wait; 0 = no limit */
        max_scale?: number;
    };
    /** One definition on several clusters */
    federation?: {
        /** names the federation; the service name if left out */
        group_id?: string;
        /** `star` (or `tree`): this cluster delegates; `mesh`: each to each; `none`: deployed, never delegating */
        topology?: "none" | "star" | "tree" | "mesh";
        /** seconds a job may wait before it is offered to the members again */
        rescheduler_threshold?: number;
        /** the services of this federation on other clusters */
        members?: {
            /** `oscar`: a service on another cluster; `endpoint`: any URL that receives the event */
            "type"?: "oscar" | "endpoint";
            /** the cluster, by its id in `clusters` or in the registry of the operator */
            cluster_id?: string;
            /** the name of the service there */
            service_name?: string;
            /** for `endpoint`: where the event is posted */
            url?: string;
            /** for `endpoint`: verify the certificate; true if left out */
            ssl_verify?: boolean;
            /** lower comes first; 101 and above is never used */
            priority?: number;
            /** headers that are sent with a delegated job; the values are never shown again */
            headers?: {
                [key: string]: string;
            };
        }[];
        /** for `random`: weight per cluster id */
        weights?: {
            [key: string]: number;
        };
        /** `transactional` (all members or none) or `best-effort` */
        deployment?: "transactional" | "best-effort";
        /** `saturated` (no room here) or `always` */
        delegate_when?: "saturated" | "always";
        /** this cluster as a candidate, with `delegate_when: always` */
        self?: {
            /** its priority among the members */
            priority?: number;
            /** its weight among the members */
            weight?: number;
        };
        /** `replace`, or `protect`: a delegated job replaces only results of the same input */
        outputs?: "replace" | "protect";
        /** rejected: a refresh token has one holder, the coordinator */
        token_sharing?: string;
        /** how the member for a job is chosen; `static` if left out */
        delegation?: ("static" | "random" | "load-based" | "topsis" | "fastest") | {
            mode?: "static" | "random" | "load-based" | "topsis" | "fastest";
            /** for `random`: weight per cluster id */
            weights?: {
                [key: string]: number;
            };
        };
    };
    /** log level of the supervisor */
    log_level?: "NOTSET" | "DEBUG" | "INFO" | "WARNING" | "ERROR" | "CRITICAL";
    /** container image */
    image: string;
    /** the image is based on musl */
    alpine?: boolean;
    /** allows its holder to invoke this service; created by the manager */
    token?: string;
    /** do not download the input */
    file_stage_in?: boolean;
    /** where input files arrive */
    input?: {
        /** `<type>[.<id>]`; the types are minio, s3, onedata, webdav and rucio, the id is `default` if left out */
        storage_provider?: string;
        /** `<bucket>/<folder>`; without a slash the bucket is named like the service */
        path?: string;
        /** upload only files that end with one of these */
        suffix?: string[];
        /** upload only files that begin with one of these */
        prefix?: string[];
        /** for a mount: further rclone options */
        options?: string;
    }[];
    /** where results are written */
    output?: {
        /** `<type>[.<id>]`; the types are minio, s3, onedata, webdav and rucio, the id is `default` if left out */
        storage_provider?: string;
        /** `<bucket>/<folder>`; without a slash the bucket is named like the service */
        path?: string;
        /** upload only files that end with one of these */
        suffix?: string[];
        /** upload only files that begin with one of these */
        prefix?: string[];
        /** for a mount: further rclone options */
        options?: string;
    }[];
    /** the script that is run */
    script: string;
    /** names of pull secrets */
    image_pull_secrets?: string[];
    /** A service that stays up and is reached over HTTP. Not supported yet */
    expose?: {
        /** fewest instances */
        min_scale?: number;
        /** most instances */
        max_scale?: number;
        /** ports of the container */
        api_port?: number[] | number;
        /** CPU percentage above which an instance is added */
        cpu_threshold?: number;
        /** keep the public path */
        rewrite_target?: boolean;
        /** ports of the node */
        nodePort?: number[] | number;
        /** run the command of the image, not the script */
        default_command?: boolean;
        /** ask for credentials */
        set_auth?: boolean;
        /** `basic` or `forward` */
        auth_type?: string;
        /** path of the probes */
        health_path?: string;
        /** `legacy` or `direct` */
        probe_mode?: string;
    };
    /** environment of the script */
    environment?: {
        /** environment variables */
        variables?: {
            [key: string]: string;
        };
        /** environment variables whose values are kept secret; an empty value in an update keeps the old one */
        secrets?: {
            [key: string]: string;
        };
    };
    /** annotations, put on jobs too */
    annotations?: {
        [key: string]: string;
    };
    /** virtual organisation of the owner */
    vo?: string;
    /** labels, put on jobs too */
    labels?: {
        [key: string]: string;
    };
    /** Stores beside the one of the cluster, by type and id. `minio.default` is always the store of the cluster */
    storage_providers?: {
        s3?: {
            [key: string]: {
                /** never shown again */
                access_key?: string;
                /** never shown again */
                secret_key?: string;
                /** region */
                region?: string;
            };
        };
        minio?: {
            [key: string]: {
                /** URL of the store */
                endpoint?: string;
                /** verify its certificate; true if left out */
                verify?: boolean;
                /** never shown again */
                access_key?: string;
                /** never shown again */
                secret_key?: string;
                /** region */
                region?: string;
            };
        };
        onedata?: {
            [key: string]: {
                /** host, without scheme */
                oneprovider_host?: string;
                /** never shown again */
                token?: string;
                /** space */
                space?: string;
            };
        };
        webdav?: {
            [key: string]: {
                /** host, without scheme; https */
                hostname?: string;
                /** account */
                login?: string;
                /** never shown again */
                password?: string;
            };
        };
        rucio?: {
            [key: string]: {
                /** host */
                host?: string;
                /** account */
                account?: string;
                /** storage element */
                rse?: string;
                /** never shown again */
                refresh_token?: string;
                /** authentication host */
                auth_host?: string;
                /** audience */
                oidc_audience?: string;
                /** token endpoint */
                token_endpoint?: string;
            };
        };
    };
    /** other clusters, by id */
    clusters?: {
        [key: string]: {
            /** URL of the manager of that cluster */
            endpoint?: string;
            /** account there, for callers with Basic credentials */
            auth_user?: string;
            /** its password; never shown again */
            auth_password?: string;
            /** verify its certificate; true if left out */
            ssl_verify?: boolean;
        };
    };
    /** uid of the user, or `cluster_admin`; set by the manager */
    owner?: string;
    /** the namespace of its objects; set by the manager */
    "namespace"?: string;
    /** run on that virtual node. Not supported yet */
    interlink_node_name?: string;
    /** who may see and invoke it */
    visibility?: "private" | "restricted" | "public";
    /** with `restricted`: uids of the other users who may */
    allowed_users?: string[];
    /** `USER` gives each allowed user their own bucket */
    isolation_level?: "" | "SERVICE" | "USER";
    /** the buckets of the allowed users; set by the manager */
    bucket_list?: string[];
    /** A folder in an object store from which files are read or to which they are written */
    mount?: {
        /** `<type>[.<id>]`; the types are minio, s3, onedata, webdav and rucio, the id is `default` if left out */
        storage_provider?: string;
        /** `<bucket>/<folder>`; without a slash the bucket is named like the service */
        path?: string;
        /** upload only files that end with one of these */
        suffix?: string[];
        /** upload only files that begin with one of these */
        prefix?: string[];
        /** for a mount: further rclone options */
        options?: string;
    };
    /** A volume that outlives jobs. Not supported yet */
    volume?: {
        /** name; the service name if left out */
        name?: string;
        /** quantity; without it an existing volume is attached */
        size?: string;
        /** where it appears */
        mount_path?: string;
        /** `delete` or `retain` */
        lifecycle_policy?: string;
    };
    /** state of the volume; set by the manager */
    volume_status?: {
        enabled?: boolean;
        name?: string;
        phase?: string;
        error?: string;
    };
    /** The deployment of a service that stays up */
    deployment?: {
        /** pending, ready, degraded, failed, stopped or unavailable */
        state?: string;
        /** why */
        reason?: string;
        /** when it entered this state */
        last_transition_time?: string;
        /** number of instances */
        active_instances?: number;
        /** instances that are not available */
        affected_instances?: number;
        /** exposed_service, kserve_service, knative_service or unavailable */
        resource_kind?: string;
    };
    /** A model server. Not supported yet */
    kserve?: {
        /** `inference` or `llm_inference` */
        "type"?: string;
        /** where the model is */
        storage_uri?: string;
        /** inference */
        inference?: {
            /** format */
            model_format?: string;
            /** runtime */
            runtime?: string;
        };
        /** llm_inference */
        llm_inference?: {
            /** image */
            runtime_image?: string;
        };
        /** `v1` or `v2` */
        api_version?: string;
        /** fewest instances */
        min_scale?: number;
        /** most instances */
        max_scale?: number;
        /** quantity */
        cpu?: string | number;
        /** quantity */
        memory?: string | number;
        /** arguments */
        args?: string[];
        /** environment */
        env?: {
            [key: string]: string;
        };
        /** one GPU */
        enable_gpu?: boolean;
        /** ask for credentials */
        set_auth?: boolean;
    };
};
export type ServicePlan = {
    name: string;
    action: "create" | "update";
    /** keys of the definition that would change */
    changes: string[];
    buckets: {
        name: string;
        /** `keep`: no longer used, it becomes a private bucket of its owner */
        action: "create" | "use" | "keep";
    }[];
    members: {
        member: string;
        action: "create" | "adopt" | "update" | "remove";
        /** why that would not succeed now */
        problem?: string;
    }[];
};
export type Service = {
    /** name, unique in the cluster: 1 to 39 lower-case letters, digits and hyphens */
    name: string;
    /** id of this cluster inside `clusters` */
    cluster_id: string;
    /** memory limit, a Kubernetes quantity */
    memory: string;
    /** CPU limit, a Kubernetes quantity */
    cpu: string;
    /** YuniKorn queue maximum. Not supported yet */
    total_memory: string;
    /** YuniKorn queue maximum. Not supported yet */
    total_cpu: string;
    /** local disk request, a Kubernetes quantity */
    ephemeral_storage_request: string;
    /** one GPU */
    enable_gpu: boolean;
    /** an SGX enclave */
    enable_sgx: boolean;
    /** pull the image on every node beforehand; stored and shown, but without effect */
    image_prefetch: boolean;
    /** for calls of `/run` */
    synchronous: {
        /** pods that are kept ready for calls, on Kubernetes; 100 at most */
        min_scale: number;
        /** calls that run concurrently, the others wait; 0 = no limit */
        max_scale: number;
    };
    /** One definition on several clusters */
    federation?: {
        /** names the federation; the service name if left out */
        group_id: string;
        /** `star` (or `tree`): this cluster delegates; `mesh`: each to each; `none`: deployed, never delegating */
        topology: "none" | "star" | "tree" | "mesh";
        /** how the member for a job is chosen; `static` if left out */
        delegation?: "static" | "random" | "load-based" | "topsis" | "fastest";
        /** seconds a job may wait before it is offered to the members again */
        rescheduler_threshold?: number;
        /** the services of this federation on other clusters */
        members?: {
            /** `oscar`: a service on another cluster; `endpoint`: any URL that receives the event */
            "type": "oscar" | "endpoint";
            /** the cluster, by its id in `clusters` or in the registry of the operator */
            cluster_id: string;
            /** the name of the service there */
            service_name: string;
            /** for `endpoint`: where the event is posted */
            url: string;
            /** for `endpoint`: verify the certificate; true if left out */
            ssl_verify: boolean;
            /** lower comes first; 101 and above is never used */
            priority: number;
            /** headers that are sent with a delegated job; the values are never shown again */
            headers: {
                [key: string]: string;
            };
        }[];
        /** for `random`: weight per cluster id */
        weights?: {
            [key: string]: number;
        };
        /** `transactional` (all members or none) or `best-effort` */
        deployment?: "transactional" | "best-effort";
        /** `saturated` (no room here) or `always` */
        delegate_when?: "saturated" | "always";
        /** this cluster as a candidate, with `delegate_when: always` */
        self?: {
            /** its priority among the members */
            priority?: number;
            /** its weight among the members */
            weight?: number;
        };
        /** `replace`, or `protect`: a delegated job replaces only results of the same input */
        outputs?: "replace" | "protect";
        /** rejected: a refresh token has one holder, the coordinator */
        token_sharing?: string;
    };
    /** log level of the supervisor */
    log_level: "NOTSET" | "DEBUG" | "INFO" | "WARNING" | "ERROR" | "CRITICAL";
    /** container image */
    image: string;
    /** the image is based on musl */
    alpine: boolean;
    /** allows its holder to invoke this service; created by the manager */
    token: string;
    /** do not download the input */
    file_stage_in: boolean;
    /** where input files arrive */
    input: {
        /** `<type>[.<id>]`; the types are minio, s3, onedata, webdav and rucio, the id is `default` if left out */
        storage_provider: string;
        /** `<bucket>/<folder>`; without a slash the bucket is named like the service */
        path: string;
        /** upload only files that end with one of these */
        suffix?: string[];
        /** upload only files that begin with one of these */
        prefix?: string[];
        /** for a mount: further rclone options */
        options?: string;
    }[];
    /** where results are written */
    output: {
        /** `<type>[.<id>]`; the types are minio, s3, onedata, webdav and rucio, the id is `default` if left out */
        storage_provider: string;
        /** `<bucket>/<folder>`; without a slash the bucket is named like the service */
        path: string;
        /** upload only files that end with one of these */
        suffix?: string[];
        /** upload only files that begin with one of these */
        prefix?: string[];
        /** for a mount: further rclone options */
        options?: string;
    }[];
    /** the script that is run */
    script: string;
    /** names of pull secrets */
    image_pull_secrets?: string[];
    /** A service that stays up and is reached over HTTP. Not supported yet */
    expose: {
        /** fewest instances */
        min_scale: number;
        /** most instances */
        max_scale: number;
        /** ports of the container */
        api_port?: number[];
        /** CPU percentage above which an instance is added */
        cpu_threshold: number;
        /** keep the public path */
        rewrite_target: boolean;
        /** ports of the node */
        nodePort?: number[];
        /** run the command of the image, not the script */
        default_command: boolean;
        /** ask for credentials */
        set_auth: boolean;
        /** `basic` or `forward` */
        auth_type?: string;
        /** path of the probes */
        health_path: string;
        /** `legacy` or `direct` */
        probe_mode?: string;
    };
    /** environment of the script */
    environment: {
        /** environment variables */
        variables: {
            [key: string]: string;
        };
        /** environment variables whose values are kept secret; an empty value in an update keeps the old one */
        secrets: {
            [key: string]: string;
        };
    };
    /** annotations, put on jobs too */
    annotations: {
        [key: string]: string;
    };
    /** virtual organisation of the owner */
    vo: string;
    /** labels, put on jobs too */
    labels: {
        [key: string]: string;
    };
    /** Stores beside the one of the cluster, by type and id. `minio.default` is always the store of the cluster */
    storage_providers?: {
        s3?: {
            [key: string]: {
                /** never shown again */
                access_key: string;
                /** never shown again */
                secret_key: string;
                /** region */
                region: string;
            };
        };
        minio?: {
            [key: string]: {
                /** URL of the store */
                endpoint: string;
                /** verify its certificate; true if left out */
                verify: boolean;
                /** never shown again */
                access_key: string;
                /** never shown again */
                secret_key: string;
                /** region */
                region: string;
            };
        };
        onedata?: {
            [key: string]: {
                /** host, without scheme */
                oneprovider_host: string;
                /** never shown again */
                token: string;
                /** space */
                space: string;
            };
        };
        webdav?: {
            [key: string]: {
                /** host, without scheme; https */
                hostname: string;
                /** account */
                login: string;
                /** never shown again */
                password: string;
            };
        };
        rucio?: {
            [key: string]: {
                /** host */
                host: string;
                /** account */
                account: string;
                /** storage element */
                rse: string;
                /** never shown again */
                refresh_token: string;
                /** authentication host */
                auth_host: string;
                /** audience */
                oidc_audience: string;
                /** token endpoint */
                token_endpoint: string;
            };
        };
    };
    /** other clusters, by id */
    clusters?: {
        [key: string]: {
            /** URL of the manager of that cluster */
            endpoint: string;
            /** account there, for callers with Basic credentials */
            auth_user: string;
            /** its password; never shown again */
            auth_password: string;
            /** verify its certificate; true if left out */
            ssl_verify: boolean;
        };
    };
    /** uid of the user, or `cluster_admin`; set by the manager */
    owner: string;
    /** the namespace of its objects; set by the manager */
    "namespace"?: string;
    /** run on that virtual node. Not supported yet */
    interlink_node_name: string;
    /** who may see and invoke it */
    visibility: "private" | "restricted" | "public";
    /** with `restricted`: uids of the other users who may */
    allowed_users: string[];
    /** `USER` gives each allowed user their own bucket */
    isolation_level: "" | "SERVICE" | "USER";
    /** the buckets of the allowed users; set by the manager */
    bucket_list: string[];
    /** A folder in an object store from which files are read or to which they are written */
    mount: {
        /** `<type>[.<id>]`; the types are minio, s3, onedata, webdav and rucio, the id is `default` if left out */
        storage_provider: string;
        /** `<bucket>/<folder>`; without a slash the bucket is named like the service */
        path: string;
        /** upload only files that end with one of these */
        suffix?: string[];
        /** upload only files that begin with one of these */
        prefix?: string[];
        /** for a mount: further rclone options */
        options?: string;
    };
    /** A volume that outlives jobs. Not supported yet */
    volume?: {
        /** name; the service name if left out */
        name?: string;
        /** quantity; without it an existing volume is attached */
        size?: string;
        /** where it appears */
        mount_path: string;
        /** `delete` or `retain` */
        lifecycle_policy?: string;
    };
    /** state of the volume; set by the manager */
    volume_status: {
        enabled: boolean;
        name?: string;
        phase?: string;
        error?: string;
    };
    /** The deployment of a service that stays up */
    deployment?: {
        /** pending, ready, degraded, failed, stopped or unavailable */
        state: string;
        /** why */
        reason?: string;
        /** when it entered this state */
        last_transition_time?: string;
        /** number of instances */
        active_instances: number;
        /** instances that are not available */
        affected_instances: number;
        /** exposed_service, kserve_service, knative_service or unavailable */
        resource_kind: string;
    };
    /** A model server. Not supported yet */
    kserve?: {
        /** `inference` or `llm_inference` */
        "type": string;
        /** where the model is */
        storage_uri: string;
        /** inference */
        inference?: {
            /** format */
            model_format: string;
            /** runtime */
            runtime?: string;
        };
        /** llm_inference */
        llm_inference?: {
            /** image */
            runtime_image?: string;
        };
        /** `v1` or `v2` */
        api_version?: string;
        /** fewest instances */
        min_scale?: number;
        /** most instances */
        max_scale?: number;
        /** quantity */
        cpu?: string;
        /** quantity */
        memory?: string;
        /** arguments */
        args?: string[];
        /** environment */
        env?: {
            [key: string]: string;
        };
        /** one GPU */
        enable_gpu?: boolean;
        /** ask for credentials */
        set_auth?: boolean;
    };
};
export type BucketDefinition = {
    /** `bucket`, or `bucket/folder` */
    bucket_name: string;
    visibility?: "private" | "restricted" | "public";
    /** uids, with `restricted` */
    allowed_users?: string[];
};
export type Bucket = {
    bucket_name: string;
    visibility: string;
    allowed_users: string[] | null;
    owner: string;
    metadata: {
        [key: string]: string;
    };
    objects?: {
        object_name: string;
        size_bytes: number;
        last_modified: string;
    }[];
    storage_quota: {
        max?: string;
        max_bytes?: number;
        source: string;
    };
    storage_usage: {
        used: string;
        used_bytes: number;
        objects?: number;
    };
    attribution: string;
};
export type BucketPage = {
    bucket_name: string;
    visibility: string;
    allowed_users: string[] | null;
    owner: string;
    metadata: {
        [key: string]: string;
    };
    objects?: {
        object_name: string;
        size_bytes: number;
        last_modified: string;
    }[];
    storage_quota: {
        max?: string;
        max_bytes?: number;
        source: string;
    };
    storage_usage: {
        used: string;
        used_bytes: number;
        objects?: number;
    };
    attribution: string;
    next_page?: string;
    is_truncated: boolean;
    returned_items: number;
};
export type PresignedUrl = {
    object_key: string;
    operation: "upload" | "download" | "delete-object" | "multipart-create" | "multipart-part" | "multipart-list" | "multipart-complete" | "multipart-abort";
    method: "PUT" | "GET" | "POST" | "DELETE";
    url: string;
    expires_at: string;
    /** headers that the request to `url` must have */
    headers?: {
        [key: string]: string;
    };
};
export type JobSummary = {
    id: string;
    service: string;
    state: "accepted" | "queued" | "offering" | "delegated" | "running" | "committing" | "succeeded" | "failed" | "cancelled";
    /** the state as a pod phase */
    phase: "Pending" | "Running" | "Succeeded" | "Failed";
    /** the current activity, or why the job ended */
    message: string;
    trigger: "storage" | "job" | "run";
    /** who invoked it, if known and visible to the caller */
    invoker?: string;
    /** the member where the job entered, which claims who the invoker is */
    invoker_claimed_by?: string;
    "object"?: {
        bucket: string;
        key: string;
    };
    /** the cluster of the last attempt */
    place?: string;
    accepted_at: string;
    started_at?: string;
    finished_at?: string;
    exit_code?: number;
    /** it was cancelled but has not ended yet */
    cancelling?: boolean;
};
export type AllJobs = {
    jobs: JobSummary[];
    /** absent on the last page; a page may be shorter than `limit` */
    next_page?: string;
};
export type Job = {
    id: string;
    service: string;
    state: "accepted" | "queued" | "offering" | "delegated" | "running" | "committing" | "succeeded" | "failed" | "cancelled";
    /** the state as a pod phase */
    phase: "Pending" | "Running" | "Succeeded" | "Failed";
    /** the current activity, or why the job ended */
    message: string;
    trigger: "storage" | "job" | "run";
    /** who invoked it, if known and visible to the caller */
    invoker?: string;
    /** the member where the job entered, which claims who the invoker is */
    invoker_claimed_by?: string;
    "object"?: {
        bucket: string;
        key: string;
    };
    /** the cluster of the last attempt */
    place?: string;
    accepted_at: string;
    started_at?: string;
    finished_at?: string;
    exit_code?: number;
    /** it was cancelled but has not ended yet */
    cancelling?: boolean;
    attempts: {
        name: string;
        epoch: number;
        place: string;
        started_at?: string;
        finished_at?: string;
        exit_code?: number;
    }[];
    decisions: {
        at: string;
        /** the epoch of the attempt */
        epoch?: number;
        policy: string;
        chosen?: string;
        candidates: {
            member: string;
            score?: number;
            refusal?: string;
            /** the age of the data about its cluster, in seconds */
            age?: number;
        }[];
    }[];
    timeline: {
        state: "accepted" | "queued" | "offering" | "delegated" | "running" | "committing" | "succeeded" | "failed" | "cancelled";
        at: string;
        reason: string;
        message: string;
        place: string;
    }[];
};
export type Member = {
    /** `oscar`: a service on another cluster; `endpoint`: any URL that receives the event */
    "type": "oscar" | "endpoint";
    /** the cluster, by its id in `clusters` or in the registry of the operator */
    cluster_id: string;
    /** the name of the service there */
    service_name: string;
    /** for `endpoint`: where the event is posted */
    url: string;
    /** for `endpoint`: verify the certificate; true if left out */
    ssl_verify: boolean;
    /** lower comes first; 101 and above is never used */
    priority: number;
    /** headers that are sent with a delegated job; the values are never shown again */
    headers: {
        [key: string]: string;
    };
    state?: "ready" | "pending" | "unreachable" | "conflict" | "removing" | "removed-by-owner";
    /** the revision of the definition that it has */
    revision?: number;
    last_seen?: string;
    /** why it is not ready */
    reason?: string;
    /** what cannot be guaranteed for a member at a Go manager */
    note?: string;
};
export type Federation = {
    topology: "none" | "star" | "tree" | "mesh";
    members: Member[] | null;
    /** conditions that the owner must know, with `include=status` */
    conditions?: {
        "type": string;
        reason: string;
    }[];
    /** members that do not have the change yet */
    pending?: {
        /** `<cluster id>/<service>` */
        member: string;
        reason: string;
        /** the manager tries again within this many seconds */
        next_attempt_seconds?: number;
    }[];
    warnings?: string[];
};
export type ServiceMember = {
    "type"?: "oscar";
    /** the cluster, by its id in `clusters` or in the registry of the operator */
    cluster_id: string;
    /** the name of the service there */
    service_name: string;
    /** lower comes first; 101 and above is never used */
    priority?: number;
    /** headers that are sent with a delegated job; the values are never shown again */
    headers?: {
        [key: string]: string;
    };
};
export type EndpointMember = {
    "type": "endpoint";
    /** where the event is posted */
    url: string;
    /** verify the certificate; true if left out */
    ssl_verify?: boolean;
    /** lower comes first; 101 and above is never used */
    priority?: number;
    /** headers that are sent with a delegated job; the values are never shown again */
    headers?: {
        [key: string]: string;
    };
};
export type Replicas = {
    topology: "none" | "star" | "tree" | "mesh";
    replicas: Member[] | null;
    /** conditions that the owner must know, with `include=status` */
    conditions?: {
        "type": string;
        reason: string;
    }[];
    /** members that do not have the change yet */
    pending?: {
        /** `<cluster id>/<service>` */
        member: string;
        reason: string;
        /** the manager tries again within this many seconds */
        next_attempt_seconds?: number;
    }[];
    warnings?: string[];
};
/**
 * Is the manager up?
 */
export function getHealth(opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchText("/health", {
        ...opts
    });
}
/**
 * Can the manager do its work?
 */
export function getReadiness(opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            ready: boolean;
            /** why not; empty if it is ready */
            reasons: {
                reason: "DiskFull" | "ObjectStoreUnavailable" | "RecordsUnavailable" | "AuditUnavailable";
                message: string;
            }[];
        };
    } | {
        status: 503;
        data: {
            ready: boolean;
            /** why not; empty if it is ready */
            reasons: {
                reason: "DiskFull" | "ObjectStoreUnavailable" | "RecordsUnavailable" | "AuditUnavailable";
                message: string;
            }[];
        };
    }>("/ready", {
        ...opts
    });
}
/**
 * What runs here
 */
export function getInfo(opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            /** the level of the OSCAR API that is implemented */
            version: string;
            /** always empty: `manager_commit` is the commit of this manager */
            git_commit: string;
            /** as Go names it: amd64, arm64 */
            architecture: string;
            /** empty with the local backend */
            kubernetes_version: string;
            /** what runs synchronous invocations, if not the manager itself */
            serverless_backend?: {
                name: string;
                /** the version of Kubernetes; empty if Knative is not installed */
                version: string;
            };
            /** why Kueue does not admit jobs of users; absent if there is no problem */
            queues?: {
                problem: string;
            };
            /** the version of this manager */
            manager_version: string;
            /** the commit that it was built from; empty if that is not known */
            manager_commit: string;
            /** how scripts run, if not in containers of their image */
            runtime?: string;
            /** what separates scripts that run as plain processes */
            isolation?: {
                /** each script has a user id of its own */
                user_ids: boolean;
                /** each script has PID, mount and IPC namespaces of its own */
                namespaces: boolean;
                /** limits that the kernel enforces; disk is always sampled */
                enforced: string[];
                /** why there are no namespaces */
                reason?: string;
            };
            /** for the administrator: why the object store does not report new objects; absent if it does */
            object_store_events?: {
                problem: string;
                "set": string[];
            };
            /** for the administrator: why tokens for other applications are accepted; absent if they are not */
            access_tokens?: {
                problem: string;
            };
        };
    } | {
        status: 400;
        data: string;
    } | {
        status: 401;
    } | {
        status: 429;
        data: string;
    } | {
        status: 503;
        data: string;
    }>("/system/info", {
        ...opts
    });
}
/**
 * The checks of `oscar doctor` that this manager can make itself; for the administrator
 */
export function listChecks(opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: Checks;
    } | {
        status: 400;
        data: string;
    } | {
        status: 401;
    } | {
        status: 403;
        data: string;
    } | {
        status: 429;
        data: string;
    } | {
        status: 503;
        data: string;
    }>("/system/checks", {
        ...opts
    });
}
/**
 * The newest audit records that this manager knows, newest first; for the administrator
 */
export function listAuditRecords(opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: AuditRecords;
    } | {
        status: 400;
        data: string;
    } | {
        status: 401;
    } | {
        status: 403;
        data: string;
    } | {
        status: 429;
        data: string;
    } | {
        status: 503;
        data: string;
    }>("/system/audit", {
        ...opts
    });
}
/**
 * The cluster, and the keys of the caller for its store
 */
export function getConfig(opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            config: {
                name: string;
                "namespace": string;
                services_namespace: string;
                controller_service_account: string;
                gpu_available: boolean;
                interLink_available: boolean;
                serverless_backend?: string;
                yunikorn_enable: boolean;
                kueue_enable: boolean;
                volume_enable: boolean;
                /** `[""]` when every user is let in */
                oidc_groups: string[];
                minio_quota_enabled: boolean;
            };
            minio_provider: {
                endpoint: string;
                verify: boolean;
                access_key: string;
                secret_key: string;
                region: string;
            };
            allowed_image_repositories: string[];
        };
    } | {
        status: 400;
        data: string;
    } | {
        status: 401;
    } | {
        status: 429;
        data: string;
    } | {
        status: 503;
        data: string;
    }>("/system/config", {
        ...opts
    });
}
/**
 * Change the repositories that images may come from
 */
export function setAllowedImages(body: {
    allowed_image_repositories?: string[] | null;
}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: string[] | null;
    } | {
        status: 400;
        data: string;
    } | {
        status: 401;
        data: "";
    } | {
        status: 413;
        data: string;
    } | {
        status: 429;
        data: string;
    } | {
        status: 503;
        data: string;
    }>("/system/config", oazapfts.json({
        ...opts,
        method: "PUT",
        body
    }));
}
/**
 * New keys for the store; the old ones stop working
 */
export function rotateKeys(opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            minio_provider: {
                endpoint: string;
                verify: boolean;
                access_key: string;
                secret_key: string;
                region: string;
            };
        };
    } | {
        status: 400;
        data: string;
    } | {
        status: 401;
    } | {
        status: 429;
        data: string;
    } | {
        status: 503;
        data: string;
    }>("/system/config/keys", {
        ...opts,
        method: "POST"
    });
}
/**
 * Create a service
 */
export function createService(serviceDefinition: ServiceDefinition, { dryRun }: {
    dryRun?: boolean;
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: ServicePlan;
    } | {
        status: 201;
        data: string;
    } | {
        status: 400;
        data: string;
    } | {
        status: 401;
    } | {
        status: 403;
        data: string;
    } | {
        status: 409;
        data: string;
    } | {
        status: 410;
        data: string;
    } | {
        status: 413;
        data: string;
    } | {
        status: 424;
        data: string;
    } | {
        status: 429;
        data: string;
    } | {
        status: 502;
        data: string;
    } | {
        status: 503;
        data: string;
    } | {
        status: 504;
        data: string;
    }>(`/system/services${QS.query(QS.explode({
        dry_run: dryRun
    }))}`, oazapfts.json({
        ...opts,
        method: "POST",
        body: serviceDefinition
    }));
}
/**
 * Replace the definition of a service
 */
export function updateService(serviceDefinition: ServiceDefinition, { dryRun, ifMatch }: {
    dryRun?: boolean;
    ifMatch?: string;
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: ServicePlan;
    } | {
        status: 204;
    } | {
        status: 400;
        data: string;
    } | {
        status: 401;
    } | {
        status: 403;
        data: string;
    } | {
        status: 404;
    } | {
        status: 409;
        data: string;
    } | {
        status: 410;
        data: string;
    } | {
        status: 412;
        data: string;
    } | {
        status: 413;
        data: string;
    } | {
        status: 424;
        data: string;
    } | {
        status: 429;
        data: string;
    } | {
        status: 502;
        data: string;
    } | {
        status: 503;
        data: string;
    } | {
        status: 504;
        data: string;
    }>(`/system/services${QS.query(QS.explode({
        dry_run: dryRun
    }))}`, oazapfts.json({
        ...opts,
        method: "PUT",
        body: serviceDefinition,
        headers: oazapfts.mergeHeaders(opts?.headers, {
            "if-match": ifMatch
        })
    }));
}
/**
 * Services that the caller sees
 */
export function listServices({ include }: {
    include?: "deployment";
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: Service[];
    } | {
        status: 400;
        data: string;
    } | {
        status: 401;
    } | {
        status: 429;
        data: string;
    } | {
        status: 503;
        data: string;
    }>(`/system/services${QS.query(QS.explode({
        include
    }))}`, {
        ...opts
    });
}
/**
 * One service
 */
export function getService(name: string, { include }: {
    include?: "deployment";
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: Service;
    } | {
        status: 400;
        data: string;
    } | {
        status: 401;
    } | {
        status: 404;
    } | {
        status: 429;
        data: string;
    } | {
        status: 503;
        data: string;
    }>(`/system/services/${encodeURIComponent(name)}${QS.query(QS.explode({
        include
    }))}`, {
        ...opts
    });
}
/**
 * Delete a service
 */
export function deleteService(name: string, { $namespace, cascade }: {
    $namespace?: string;
    cascade?: boolean;
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchText(`/system/services/${encodeURIComponent(name)}${QS.query(QS.explode({
        "namespace": $namespace,
        cascade
    }))}`, {
        ...opts,
        method: "DELETE"
    });
}
/**
 * May the caller reach what the service exposes?
 */
export function checkServiceAccess(name: string, { token }: {
    token?: string;
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchText(`/system/services/${encodeURIComponent(name)}/auth${QS.query(QS.explode({
        token
    }))}`, {
        ...opts
    });
}
/**
 * Create a bucket
 */
export function createBucket(bucketDefinition: BucketDefinition, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchText("/system/buckets", oazapfts.json({
        ...opts,
        method: "POST",
        body: bucketDefinition
    }));
}
/**
 * Buckets that the caller reaches
 */
export function listBuckets(opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: Bucket[];
    } | {
        status: 400;
        data: string;
    } | {
        status: 401;
    } | {
        status: 429;
        data: string;
    } | {
        status: 503;
        data: string;
    }>("/system/buckets", {
        ...opts
    });
}
/**
 * Change visibility and allowed users
 */
export function updateBucket(bucketDefinition: BucketDefinition, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchText("/system/buckets", oazapfts.json({
        ...opts,
        method: "PUT",
        body: bucketDefinition
    }));
}
/**
 * One bucket and a page of its objects
 */
export function getBucket(name: string, { page, prefix }: {
    page?: string;
    prefix?: string;
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: BucketPage;
    } | {
        status: 400;
        data: string;
    } | {
        status: 401;
    } | {
        status: 403;
        data: string;
    } | {
        status: 404;
        data: string;
    } | {
        status: 429;
        data: string;
    } | {
        status: 503;
        data: string;
    }>(`/system/buckets/${encodeURIComponent(name)}${QS.query(QS.explode({
        page,
        prefix
    }))}`, {
        ...opts
    });
}
/**
 * Delete a bucket and all that is in it
 */
export function deleteBucket(name: string, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchText(`/system/buckets/${encodeURIComponent(name)}`, {
        ...opts,
        method: "DELETE"
    });
}
/**
 * A URL that uploads, downloads or deletes one object, or does one step of a multipart upload of it
 */
export function presignObject(name: string, body: {
    object_key: string;
    /** seconds, up to a week; 900 if left out */
    expires_in?: number;
    operation: "upload" | "download" | "delete-object" | "multipart-create";
    content_type?: string;
    /** headers that the upload must have */
    extra_headers?: {
        [key: string]: string;
    };
} | {
    object_key: string;
    /** seconds, up to a week; 900 if left out */
    expires_in?: number;
    operation: "multipart-part";
    /** of the multipart upload, as the store named it */
    upload_id: string;
    part_number: number;
} | {
    object_key: string;
    /** seconds, up to a week; 900 if left out */
    expires_in?: number;
    operation: "multipart-list" | "multipart-complete" | "multipart-abort";
    /** of the multipart upload, as the store named it */
    upload_id: string;
    /** with `multipart-list`: the part after which the list begins */
    part_number?: number;
}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: PresignedUrl;
    } | {
        status: 400;
        data: string;
    } | {
        status: 401;
    } | {
        status: 403;
        data: string;
    } | {
        status: 404;
        data: string;
    } | {
        status: 413;
        data: string;
    } | {
        status: 429;
        data: string;
    } | {
        status: 503;
        data: string;
    }>(`/system/buckets/${encodeURIComponent(name)}/presign`, oazapfts.json({
        ...opts,
        method: "POST",
        body
    }));
}
/**
 * Run a service with this event, some time soon
 */
export function submitJob(name: string, body?: any, { owner, xDelegatedJobId, xDelegatedFrom }: {
    owner?: string;
    xDelegatedJobId?: string;
    xDelegatedFrom?: string;
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchText(`/job/${encodeURIComponent(name)}${QS.query(QS.explode({
        owner
    }))}`, oazapfts.json({
        ...opts,
        method: "POST",
        body,
        headers: oazapfts.mergeHeaders(opts?.headers, {
            "x-delegated-job-id": xDelegatedJobId,
            "x-delegated-from": xDelegatedFrom
        })
    }));
}
/**
 * Run a service with this event and wait for its answer
 */
export function runService(name: string, body?: any, { owner }: {
    owner?: string;
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchText(`/run/${encodeURIComponent(name)}${QS.query(QS.explode({
        owner
    }))}`, oazapfts.json({
        ...opts,
        method: "POST",
        body
    }));
}
/**
 * The last invocations of all services; for the administrator and the users in USERS_ADMIN
 */
export function listInvocations({ timestamps, previous }: {
    timestamps?: boolean;
    previous?: boolean;
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            logs: {
                timestamp: string;
                status: number;
                latency: string;
                client_ip: string;
                method: string;
                path: string;
                /** the uid, or `nil` */
                user: string;
                raw: string;
            }[];
        };
    } | {
        status: 400;
        data: string;
    } | {
        status: 401;
    } | {
        status: 403;
        data: string;
    } | {
        status: 429;
        data: string;
    } | {
        status: 503;
        data: string;
    }>(`/system/logs${QS.query(QS.explode({
        timestamps,
        previous
    }))}`, {
        ...opts
    });
}
/**
 * Jobs of a service that the caller sees, newest first
 */
export function listJobLogs(name: string, { page }: {
    page?: string;
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            jobs: {
                [key: string]: {
                    status: "Pending" | "Running" | "Succeeded" | "Failed";
                    creation_time: string;
                    start_time?: string;
                    finish_time?: string;
                };
            };
            next_page?: string;
        };
    } | {
        status: 400;
        data: string;
    } | {
        status: 401;
    } | {
        status: 404;
    } | {
        status: 429;
        data: string;
    } | {
        status: 503;
        data: string;
    }>(`/system/logs/${encodeURIComponent(name)}${QS.query(QS.explode({
        page
    }))}`, {
        ...opts
    });
}
/**
 * Delete jobs of a service with their logs
 */
export function deleteJobs(name: string, { all }: {
    all?: boolean;
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchText(`/system/logs/${encodeURIComponent(name)}${QS.query(QS.explode({
        all
    }))}`, {
        ...opts,
        method: "DELETE"
    });
}
/**
 * What the script of a job printed
 */
export function getJobLog(name: string, id: string, { timestamps, follow }: {
    timestamps?: boolean;
    follow?: boolean;
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchText(`/system/logs/${encodeURIComponent(name)}/${encodeURIComponent(id)}${QS.query(QS.explode({
        timestamps,
        follow
    }))}`, {
        ...opts
    });
}
/**
 * Delete a job and its log; one that has not ended is cancelled
 */
export function deleteJob(name: string, id: string, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchText(`/system/logs/${encodeURIComponent(name)}/${encodeURIComponent(id)}`, {
        ...opts,
        method: "DELETE"
    });
}
/**
 * Jobs of all services that the caller sees, newest first, without their attempts, decisions and timeline
 */
export function listAllJobs({ state, page, service, user, limit }: {
    state?: string;
    page?: string;
    service?: string;
    user?: string;
    limit?: number;
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: AllJobs;
    } | {
        status: 400;
        data: string;
    } | {
        status: 401;
    } | {
        status: 403;
        data: string;
    } | {
        status: 410;
        data: string;
    } | {
        status: 429;
        data: string;
    } | {
        status: 503;
        data: string;
    }>(`/system/jobs${QS.query(QS.explode({
        state,
        page,
        service,
        user,
        limit
    }))}`, {
        ...opts
    });
}
/**
 * Jobs of a service that the caller sees, newest first; or what has changed in them
 */
export function listJobs(name: string, { state, page, since, wait }: {
    state?: string;
    page?: string;
    since?: string;
    wait?: number;
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            jobs: Job[];
            next_page?: string;
            /** ids of jobs that were deleted; with `since` */
            gone?: string[];
            /** for `since` */
            cursor: string;
        };
    } | {
        status: 400;
        data: string;
    } | {
        status: 401;
    } | {
        status: 404;
    } | {
        status: 410;
        data: string;
    } | {
        status: 429;
        data: string;
    } | {
        status: 503;
        data: string;
    }>(`/system/jobs/${encodeURIComponent(name)}${QS.query(QS.explode({
        state,
        page,
        since,
        wait
    }))}`, {
        ...opts
    });
}
/**
 * One job and its life
 */
export function getJob(name: string, id: string, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: Job;
    } | {
        status: 400;
        data: string;
    } | {
        status: 401;
    } | {
        status: 404;
    } | {
        status: 429;
        data: string;
    } | {
        status: 503;
        data: string;
    }>(`/system/jobs/${encodeURIComponent(name)}/${encodeURIComponent(id)}`, {
        ...opts
    });
}
/**
 * Cancel a job: at once if it waits, as soon as its script is gone if it runs; 409 if it has ended
 */
export function cancelJob(name: string, id: string, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchText(`/system/jobs/${encodeURIComponent(name)}/${encodeURIComponent(id)}`, {
        ...opts,
        method: "DELETE"
    });
}
/**
 * What happens to the jobs and members that the caller sees, as server-sent events
 */
export function watchEvents({ lastEventId }: {
    lastEventId?: string;
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchText("/system/events", {
        ...opts,
        headers: oazapfts.mergeHeaders(opts?.headers, {
            "last-event-id": lastEventId
        })
    });
}
/**
 * Webhook of the object store
 */
export function receiveStorageEvents(body: {
    Records?: any[];
}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchText("/system/events/storage", oazapfts.json({
        ...opts,
        method: "POST",
        body
    }));
}
/**
 * What is free and what runs
 */
export function getStatus(opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            cluster: {
                nodes_count: number;
                metrics: {
                    /** millicores: free is what is not in use, schedulable what no pod or job has requested */
                    cpu: {
                        total_free_cores: number;
                        max_free_on_node_cores: number;
                        total_schedulable_cores: number;
                        /** the most on one node */
                        total_schedulable_on_node_cores: number;
                        /** the same as `total_free_cores` */
                        total_free: number;
                        /** the same as `max_free_on_node_cores` */
                        max_free_on_node: number;
                    };
                    memory: {
                        total_free_bytes: number;
                        max_free_on_node_bytes: number;
                        total_schedulable_bytes: number;
                        max_schedulable_on_node_bytes: number;
                    };
                    gpu: {
                        total_gpu: number;
                    };
                };
                nodes: {
                    name: string;
                    /** what is zero is left out */
                    cpu: {
                        capacity_cores?: number;
                        usage_cores?: number;
                        request_cores?: number;
                    };
                    /** what is zero is left out */
                    memory: {
                        capacity_bytes?: number;
                        usage_bytes?: number;
                        request_bytes?: number;
                    };
                    gpu: number;
                    is_interlink: boolean;
                    status: "Ready" | "NotReady" | "Unknown";
                    conditions: {
                        "type": string;
                        status: boolean;
                    }[];
                    has_gpu: boolean;
                }[] | null;
            };
            oscar: {
                deployment_name: string;
                ready: boolean;
                deployment: {
                    available_replicas: number;
                    ready_replicas: number;
                    replicas: number;
                    creation_timestamp: string;
                    strategy: string;
                    labels: {
                        [key: string]: string;
                    };
                };
                /** for administrators; 0 for others, like what follows */
                jobs_count: number;
                pods: {
                    total: number;
                    states: {
                        [key: string]: number;
                    };
                };
                oidc: {
                    enabled: boolean;
                    issuers: string[];
                    groups: string[];
                };
            };
            minio: {
                buckets_count: number;
                total_objects: number;
            };
        };
    } | {
        status: 400;
        data: {
            error: string;
        };
    } | {
        status: 401;
    } | {
        status: 429;
        data: {
            error: string;
        };
    } | {
        status: 503;
        data: {
            error: string;
        };
    }>("/system/status", {
        ...opts
    });
}
/**
 * What was run of the services that the caller sees
 */
export function getMetrics({ start, end }: {
    start?: string;
    end?: string;
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            start: string;
            end: string;
            totals: {
                /** services that the caller sees now */
                services_count_active: number;
                /** services that were used in this time */
                services_count_total: number;
                cpu_hours_total: number;
                gpu_hours_total: number;
                requests_count_total: number;
                requests_count_sync: number;
                requests_count_async: number;
                requests_count_exposed: number;
                countries_count: number;
                countries: {
                    country: string;
                    request_count: number;
                }[] | null;
                users_count: number;
                /** users of services of the caller; of others, the caller alone */
                users: string[] | null;
            };
            sources: {
                name: string;
                status: "ok" | "partial" | "missing";
                notes?: string;
            }[];
        };
    } | {
        status: 400;
        data: {
            error: string;
        };
    } | {
        status: 401;
    } | {
        status: 429;
        data: {
            error: string;
        };
    } | {
        status: 503;
        data: {
            error: string;
        };
    }>(`/system/metrics${QS.query(QS.explode({
        start,
        end
    }))}`, {
        ...opts
    });
}
/**
 * The same by service, user or country
 */
export function getMetricsBreakdown(groupBy: "service" | "user" | "country", { includeUsers, format, start, end }: {
    includeUsers?: boolean;
    format?: "json" | "csv";
    start?: string;
    end?: string;
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            start: string;
            end: string;
            group_by: string;
            items: {
                key: string;
                membership?: string;
                requests_count_total?: number;
                requests_count_sync?: number;
                requests_count_async?: number;
                requests_count_exposed?: number;
                executions_count?: number;
                unique_users_count?: number;
                users?: string[];
                countries: {
                    country: string;
                    request_count: number;
                }[];
            }[];
        };
    } | {
        status: 400;
        data: {
            error: string;
        };
    } | {
        status: 401;
    } | {
        status: 429;
        data: {
            error: string;
        };
    } | {
        status: 503;
        data: {
            error: string;
        };
    }>(`/system/metrics/breakdown${QS.query(QS.explode({
        group_by: groupBy,
        include_users: includeUsers,
        format,
        start,
        end
    }))}`, {
        ...opts
    });
}
/**
 * What was run of one service
 */
export function getServiceMetrics(name: string, { metric, start, end }: {
    metric?: "cpu-hours" | "gpu-hours" | "requests-sync-per-service" | "requests-async-per-service" | "requests-exposed-per-service" | "users-per-service";
    start?: string;
    end?: string;
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            service_name: string;
            start: string;
            end: string;
            metrics: {
                metric: string;
                value: number;
                unit?: string;
                sources: {
                    name: string;
                    status: "ok" | "partial" | "missing";
                    notes?: string;
                }[];
            }[];
        } | {
            service_id: string;
            metric: string;
            start: string;
            end: string;
            value: number;
            unit?: string;
            sources: {
                name: string;
                status: "ok" | "partial" | "missing";
                notes?: string;
            }[];
        };
    } | {
        status: 400;
        data: {
            error: string;
        };
    } | {
        status: 401;
    } | {
        status: 403;
    } | {
        status: 404;
    } | {
        status: 429;
        data: {
            error: string;
        };
    } | {
        status: 503;
        data: {
            error: string;
        };
    }>(`/system/metrics/${encodeURIComponent(name)}${QS.query(QS.explode({
        metric,
        start,
        end
    }))}`, {
        ...opts
    });
}
/**
 * Figures for Prometheus
 */
export function scrapeMetrics(opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchText("/metrics", {
        ...opts
    });
}
/**
 * What stands behind a service
 */
export function getDeployment(name: string, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            service_name: string;
            "namespace"?: string;
            /** pending, ready, degraded, failed, stopped or unavailable */
            state: string;
            /** why */
            reason?: string;
            /** when it entered this state */
            last_transition_time?: string;
            /** number of instances */
            active_instances: number;
            /** instances that are not available */
            affected_instances: number;
            /** exposed_service, kserve_service, knative_service or unavailable */
            resource_kind: string;
        };
    } | {
        status: 400;
        data: string;
    } | {
        status: 401;
    } | {
        status: 404;
    } | {
        status: 429;
        data: string;
    } | {
        status: 503;
        data: string;
    }>(`/system/services/${encodeURIComponent(name)}/deployment`, {
        ...opts
    });
}
/**
 * What it wrote
 */
export function getDeploymentLogs(name: string, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            service_name: string;
            available: boolean;
            message?: string;
            entries: {
                timestamp?: string;
                message: string;
            }[];
        };
    } | {
        status: 400;
        data: string;
    } | {
        status: 401;
    } | {
        status: 404;
    } | {
        status: 429;
        data: string;
    } | {
        status: 503;
        data: string;
    }>(`/system/services/${encodeURIComponent(name)}/deployment/logs`, {
        ...opts
    });
}
/**
 * Topology and members
 */
export function getFederation(name: string, { include }: {
    include?: "status";
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: Federation;
    } | {
        status: 400;
        data: string;
    } | {
        status: 401;
    } | {
        status: 404;
    } | {
        status: 429;
        data: string;
    } | {
        status: 503;
        data: string;
    }>(`/system/federation/${encodeURIComponent(name)}${QS.query(QS.explode({
        include
    }))}`, {
        ...opts
    });
}
/**
 * Add members
 */
export function addFederationMembers(name: string, body: {
    members?: (ServiceMember | EndpointMember)[];
    /** clusters of these members that the definition does not have, by id */
    clusters?: {
        [key: string]: {
            /** URL of the manager of that cluster */
            endpoint?: string;
            /** account there, for callers with Basic credentials */
            auth_user?: string;
            /** its password; never shown again */
            auth_password?: string;
            /** verify its certificate; true if left out */
            ssl_verify?: boolean;
        };
    };
}, { wait, ifMatch }: {
    wait?: number;
    ifMatch?: string;
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: Federation;
    } | {
        status: 400;
        data: string;
    } | {
        status: 401;
    } | {
        status: 403;
        data: string;
    } | {
        status: 404;
    } | {
        status: 409;
        data: string;
    } | {
        status: 410;
        data: string;
    } | {
        status: 412;
        data: string;
    } | {
        status: 413;
        data: string;
    } | {
        status: 424;
        data: string;
    } | {
        status: 429;
        data: string;
    } | {
        status: 502;
        data: string;
    } | {
        status: 503;
        data: string;
    } | {
        status: 504;
        data: string;
    }>(`/system/federation/${encodeURIComponent(name)}${QS.query(QS.explode({
        wait
    }))}`, oazapfts.json({
        ...opts,
        method: "POST",
        body,
        headers: oazapfts.mergeHeaders(opts?.headers, {
            "if-match": ifMatch
        })
    }));
}
/**
 * Change members
 */
export function changeFederationMembers(name: string, body: {
    members?: (ServiceMember | EndpointMember)[];
    /** what the members become, in the same order; if left out, each entry changes the member it names */
    update?: (ServiceMember | EndpointMember)[];
    /** clusters of these members that the definition does not have, by id */
    clusters?: {
        [key: string]: {
            /** URL of the manager of that cluster */
            endpoint?: string;
            /** account there, for callers with Basic credentials */
            auth_user?: string;
            /** its password; never shown again */
            auth_password?: string;
            /** verify its certificate; true if left out */
            ssl_verify?: boolean;
        };
    };
}, { wait, ifMatch }: {
    wait?: number;
    ifMatch?: string;
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: Federation;
    } | {
        status: 400;
        data: string;
    } | {
        status: 401;
    } | {
        status: 403;
        data: string;
    } | {
        status: 404;
    } | {
        status: 409;
        data: string;
    } | {
        status: 410;
        data: string;
    } | {
        status: 412;
        data: string;
    } | {
        status: 413;
        data: string;
    } | {
        status: 424;
        data: string;
    } | {
        status: 429;
        data: string;
    } | {
        status: 502;
        data: string;
    } | {
        status: 503;
        data: string;
    } | {
        status: 504;
        data: string;
    }>(`/system/federation/${encodeURIComponent(name)}${QS.query(QS.explode({
        wait
    }))}`, oazapfts.json({
        ...opts,
        method: "PUT",
        body,
        headers: oazapfts.mergeHeaders(opts?.headers, {
            "if-match": ifMatch
        })
    }));
}
/**
 * Remove members; without a body all of them
 */
export function removeFederationMembers(name: string, body?: {
    /** all members if left out or empty */
    members?: (ServiceMember | EndpointMember)[];
    /** `false` leaves them as services of their own */
    "delete"?: boolean;
    /** as the query parameter */
    force?: boolean;
}, { force, ifMatch }: {
    force?: boolean;
    ifMatch?: string;
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: Federation;
    } | {
        status: 400;
        data: string;
    } | {
        status: 401;
    } | {
        status: 403;
        data: string;
    } | {
        status: 404;
    } | {
        status: 409;
        data: string;
    } | {
        status: 410;
        data: string;
    } | {
        status: 412;
        data: string;
    } | {
        status: 413;
        data: string;
    } | {
        status: 424;
        data: string;
    } | {
        status: 429;
        data: string;
    } | {
        status: 502;
        data: string;
    } | {
        status: 503;
        data: string;
    } | {
        status: 504;
        data: string;
    }>(`/system/federation/${encodeURIComponent(name)}${QS.query(QS.explode({
        force
    }))}`, oazapfts.json({
        ...opts,
        method: "DELETE",
        body,
        headers: oazapfts.mergeHeaders(opts?.headers, {
            "if-match": ifMatch
        })
    }));
}
/**
 * Topology and members
 */
export function getReplicas(name: string, { include }: {
    include?: "status";
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: Replicas;
    } | {
        status: 400;
        data: string;
    } | {
        status: 401;
    } | {
        status: 404;
    } | {
        status: 429;
        data: string;
    } | {
        status: 503;
        data: string;
    }>(`/system/replicas/${encodeURIComponent(name)}${QS.query(QS.explode({
        include
    }))}`, {
        ...opts
    });
}
/**
 * Add members
 */
export function addReplicas(name: string, body: {
    replicas?: (ServiceMember | EndpointMember)[];
    /** clusters of these members that the definition does not have, by id */
    clusters?: {
        [key: string]: {
            /** URL of the manager of that cluster */
            endpoint?: string;
            /** account there, for callers with Basic credentials */
            auth_user?: string;
            /** its password; never shown again */
            auth_password?: string;
            /** verify its certificate; true if left out */
            ssl_verify?: boolean;
        };
    };
}, { wait, ifMatch }: {
    wait?: number;
    ifMatch?: string;
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: Replicas;
    } | {
        status: 400;
        data: string;
    } | {
        status: 401;
    } | {
        status: 403;
        data: string;
    } | {
        status: 404;
    } | {
        status: 409;
        data: string;
    } | {
        status: 410;
        data: string;
    } | {
        status: 412;
        data: string;
    } | {
        status: 413;
        data: string;
    } | {
        status: 424;
        data: string;
    } | {
        status: 429;
        data: string;
    } | {
        status: 502;
        data: string;
    } | {
        status: 503;
        data: string;
    } | {
        status: 504;
        data: string;
    }>(`/system/replicas/${encodeURIComponent(name)}${QS.query(QS.explode({
        wait
    }))}`, oazapfts.json({
        ...opts,
        method: "POST",
        body,
        headers: oazapfts.mergeHeaders(opts?.headers, {
            "if-match": ifMatch
        })
    }));
}
/**
 * Change members
 */
export function changeReplicas(name: string, body: {
    replicas?: (ServiceMember | EndpointMember)[];
    /** what the members become, in the same order; if left out, each entry changes the member it names */
    update?: (ServiceMember | EndpointMember)[];
    /** clusters of these members that the definition does not have, by id */
    clusters?: {
        [key: string]: {
            /** URL of the manager of that cluster */
            endpoint?: string;
            /** account there, for callers with Basic credentials */
            auth_user?: string;
            /** its password; never shown again */
            auth_password?: string;
            /** verify its certificate; true if left out */
            ssl_verify?: boolean;
        };
    };
}, { wait, ifMatch }: {
    wait?: number;
    ifMatch?: string;
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: Replicas;
    } | {
        status: 400;
        data: string;
    } | {
        status: 401;
    } | {
        status: 403;
        data: string;
    } | {
        status: 404;
    } | {
        status: 409;
        data: string;
    } | {
        status: 410;
        data: string;
    } | {
        status: 412;
        data: string;
    } | {
        status: 413;
        data: string;
    } | {
        status: 424;
        data: string;
    } | {
        status: 429;
        data: string;
    } | {
        status: 502;
        data: string;
    } | {
        status: 503;
        data: string;
    } | {
        status: 504;
        data: string;
    }>(`/system/replicas/${encodeURIComponent(name)}${QS.query(QS.explode({
        wait
    }))}`, oazapfts.json({
        ...opts,
        method: "PUT",
        body,
        headers: oazapfts.mergeHeaders(opts?.headers, {
            "if-match": ifMatch
        })
    }));
}
/**
 * Remove members; without a body all of them
 */
export function removeReplicas(name: string, body?: {
    /** all members if left out or empty */
    replicas?: (ServiceMember | EndpointMember)[];
    /** `false` leaves them as services of their own */
    "delete"?: boolean;
    /** as the query parameter */
    force?: boolean;
}, { force, ifMatch }: {
    force?: boolean;
    ifMatch?: string;
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: Replicas;
    } | {
        status: 400;
        data: string;
    } | {
        status: 401;
    } | {
        status: 403;
        data: string;
    } | {
        status: 404;
    } | {
        status: 409;
        data: string;
    } | {
        status: 410;
        data: string;
    } | {
        status: 412;
        data: string;
    } | {
        status: 413;
        data: string;
    } | {
        status: 424;
        data: string;
    } | {
        status: 429;
        data: string;
    } | {
        status: 502;
        data: string;
    } | {
        status: 503;
        data: string;
    } | {
        status: 504;
        data: string;
    }>(`/system/replicas/${encodeURIComponent(name)}${QS.query(QS.explode({
        force
    }))}`, oazapfts.json({
        ...opts,
        method: "DELETE",
        body,
        headers: oazapfts.mergeHeaders(opts?.headers, {
            "if-match": ifMatch
        })
    }));
}
/**
 * This cluster and those of your federations: capacity, round trip, problems
 */
export function listClusters(opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            /** millicores, bytes and devices; absent if not known */
            clusters: {
                cluster_id: string;
                /** the cluster of this manager, which is the first */
                self: boolean;
                cpu?: {
                    total: number;
                    used: number;
                    /** wanted by jobs that were sent there and are not among the used yet */
                    promised: number;
                    free: number;
                };
                memory?: {
                    total: number;
                    used: number;
                    /** wanted by jobs that were sent there and are not among the used yet */
                    promised: number;
                    free: number;
                };
                gpu?: {
                    total: number;
                    used: number;
                    /** wanted by jobs that were sent there and are not among the used yet */
                    promised: number;
                    free: number;
                };
                nodes?: number;
                /** jobs that wait there */
                queued?: number;
                round_trip_ms?: number;
                /** how old the figures are */
                age_ms?: number;
                /** why it did not answer when it was last asked */
                problem?: string;
            }[];
            /** what the owners of federated services must know */
            conditions: {
                service: string;
                "type": string;
                reason: string;
            }[];
        };
    } | {
        status: 400;
        data: string;
    } | {
        status: 401;
    } | {
        status: 429;
        data: string;
    } | {
        status: 503;
        data: string;
    }>("/system/clusters", {
        ...opts
    });
}
/**
 * A change of members that was sent to a worker, from its manager
 */
export function forwardChange(name: string, body: {
    method: "POST" | "PUT" | "DELETE";
    body?: any;
}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            topology: string;
            members: any[];
            pending: string[];
            absent?: string[];
        };
    } | {
        status: 400;
        data: string;
    } | {
        status: 401;
        data: string;
    } | {
        status: 403;
        data: string;
    } | {
        status: 404;
    } | {
        status: 409;
        data: string;
    } | {
        status: 410;
        data: string;
    } | {
        status: 413;
        data: string;
    } | {
        status: 424;
        data: string;
    } | {
        status: 429;
        data: string;
    } | {
        status: 502;
        data: string;
    } | {
        status: 503;
        data: string;
    } | {
        status: 504;
        data: string;
    }>(`/system/federation/${encodeURIComponent(name)}/changes`, oazapfts.json({
        ...opts,
        method: "POST",
        body
    }));
}
/**
 * The owner of a worker ends it on its own cluster, from the manager there
 */
export function reportDeparture(name: string, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchText(`/system/federation/${encodeURIComponent(name)}/departures`, {
        ...opts,
        method: "POST"
    });
}
/**
 * Revoke the refresh token of a federation at its issuer, and forget it
 */
export function revokeFederationToken(name: string, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchText(`/system/federation/${encodeURIComponent(name)}/token`, {
        ...opts,
        method: "DELETE"
    });
}
/**
 * What a federation finds under this name
 */
export function probeWorker(name: string, { key }: {
    key?: string;
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            instance: string;
            /** nothing, own, member, taken; or worker, to its coordinator */
            found: string;
            version?: string;
            uid?: string;
            revision?: number;
            digest?: string;
        };
    } | {
        status: 400;
        data: string;
    } | {
        status: 401;
        data: string;
    } | {
        status: 403;
        data: string;
    } | {
        status: 404;
    } | {
        status: 409;
        data: string;
    } | {
        status: 410;
        data: string;
    } | {
        status: 429;
        data: string;
    } | {
        status: 503;
        data: string;
    }>(`/system/services/${encodeURIComponent(name)}/federation${QS.query(QS.explode({
        key
    }))}`, {
        ...opts
    });
}
/**
 * Change a worker
 */
export function changeWorker(name: string, body: object, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchText(`/system/services/${encodeURIComponent(name)}/federation`, oazapfts.json({
        ...opts,
        method: "PUT",
        body
    }));
}
/**
 * End a worker
 */
export function endWorker(name: string, { how }: {
    how?: "undo" | "detach";
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchText(`/system/services/${encodeURIComponent(name)}/federation${QS.query(QS.explode({
        how
    }))}`, {
        ...opts,
        method: "DELETE"
    });
}
