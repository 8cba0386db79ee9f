// SPDX-License-Identifier: Apache-2.0

// Package patchvalidation validates the answers of extensions: whether patches apply and
// change only permitted fields. It works on objects as decoded JSON, without their
// types. Package plan validates upgrade plans.
package patchvalidation
