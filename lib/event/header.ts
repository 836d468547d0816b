/** Header fields with a meaning of their own for events: traces, and methods that a request asks for. */

