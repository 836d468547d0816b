/** Version of this package. */
export const SDK_VERSION = "0.1.0";
/** Version of the API that it speaks (docs/guides/integrators.md). */
export const API_VERSION = "1";
