resource "aws_s3_bucket" "results" {
  # checkov:skip=CKV_AWS_18: a log of every read would need a bucket of its own, and who may read is this account only
  # checkov:skip=CKV_AWS_144: a copy in another region would cost more than what it holds, which can be measured again
  # checkov:skip=CKV_AWS_145: encrypted with S3's key; a KMS key costs extra for each month and request, and nobody else is to be kept out
  # checkov:skip=CKV2_AWS_62: nobody waits for events
  bucket_prefix = "${var.name}-results-"
  force_destroy = !var.keep

  tags = { Name = "${var.name}-results" }
}

resource "aws_s3_bucket_public_access_block" "results" {
  bucket = aws_s3_bucket.results.id

  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_ownership_controls" "results" {
  bucket = aws_s3_bucket.results.id

  rule {
    object_ownership = "BucketOwnerEnforced"
  }
}

resource "aws_s3_bucket_versioning" "results" {
  bucket = aws_s3_bucket.results.id

  versioning_configuration {
    status = "Enabled"
  }
}

resource "aws_s3_bucket_server_side_encryption_configuration" "results" {
  bucket = aws_s3_bucket.results.id

  rule {
    apply_server_side_encryption_by_default {
      sse_algorithm = "AES256"
    }
  }
}

resource "aws_s3_bucket_policy" "results" {
  bucket = aws_s3_bucket.results.id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid       = "OnlyByTls"
      Effect    = "Deny"
      Principal = "*"
      Action    = "s3:*"
      Resource  = [aws_s3_bucket.results.arn, "${aws_s3_bucket.results.arn}/*"]
      Condition = { Bool = { "aws:SecureTransport" = "false" } }
    }]
  })

  # A policy and the block of public ones cannot be set at the same time.
  depends_on = [aws_s3_bucket_public_access_block.results]
}

resource "aws_s3_bucket_lifecycle_configuration" "results" {
  bucket = aws_s3_bucket.results.id

  rule {
    id     = "results"
    status = "Enabled"

    filter {
      prefix = "results/"
    }

    expiration {
      days = var.results_days
    }
  }

  # What storage hosts send by themselves, whole each time. Backups that a person made stay.
  rule {
    id     = "scheduled-backups"
    status = "Enabled"

    filter {
      prefix = "backups/scheduled/"
    }

    expiration {
      days = var.backup_days
    }
  }

  # Whatever was deleted or written over, by age or by mistake, can be fetched back for 30 days.
  rule {
    id     = "leftovers"
    status = "Enabled"

    filter {}

    noncurrent_version_expiration {
      noncurrent_days = 30
    }

    expiration {
      expired_object_delete_marker = true
    }

    abort_incomplete_multipart_upload {
      days_after_initiation = 7
    }
  }

  depends_on = [aws_s3_bucket_versioning.results]
}
