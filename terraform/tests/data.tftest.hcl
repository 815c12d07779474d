# The bucket, and what hosts may do in it and at AWS.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  name         = "kairoscope"
  results_days = 90
  backup_days  = 14
  keep         = false
  prefix       = "kairoscope-eu-central-1"
  bucket_arn   = "arn:aws:s3:::kairoscope-results-1"
  ssm          = false
  boundary     = null
}

run "bucket" {
  module {
    source = "./modules/results"
  }

  assert {
    condition = (
      aws_s3_bucket_public_access_block.results.block_public_acls && aws_s3_bucket_public_access_block.results.block_public_policy &&
      aws_s3_bucket_public_access_block.results.ignore_public_acls && aws_s3_bucket_public_access_block.results.restrict_public_buckets &&
      aws_s3_bucket_ownership_controls.results.rule[0].object_ownership == "BucketOwnerEnforced"
    )
    error_message = "Nothing in it may become public."
  }

  assert {
    condition = (
      aws_s3_bucket_versioning.results.versioning_configuration[0].status == "Enabled" &&
      one(aws_s3_bucket_server_side_encryption_configuration.results.rule).apply_server_side_encryption_by_default[0].sse_algorithm == "AES256"
    )
    error_message = "Versioned and encrypted."
  }

  assert {
    condition = one(jsondecode(aws_s3_bucket_policy.results.policy).Statement) == {
      Sid       = "OnlyByTls"
      Effect    = "Deny"
      Principal = "*"
      Action    = "s3:*"
      Resource  = ["arn:aws:s3:::kairoscope-results-1", "arn:aws:s3:::kairoscope-results-1/*"]
      Condition = { Bool = { "aws:SecureTransport" = "false" } }
    }
    error_message = "Refused unless by TLS, and nobody is let in."
  }

  assert {
    condition = (
      aws_s3_bucket_lifecycle_configuration.results.rule[0].filter[0].prefix == "results/" &&
      aws_s3_bucket_lifecycle_configuration.results.rule[0].expiration[0].days == 90 &&
      aws_s3_bucket_lifecycle_configuration.results.rule[1].filter[0].prefix == "backups/scheduled/" &&
      aws_s3_bucket_lifecycle_configuration.results.rule[1].expiration[0].days == 14 &&
      aws_s3_bucket_lifecycle_configuration.results.rule[2].noncurrent_version_expiration[0].noncurrent_days == 30
    )
    error_message = "Results and what hosts sent go by age, a person's backups do not; what was deleted is kept for 30 days."
  }

  assert {
    condition     = aws_s3_bucket.results.bucket_prefix == "kairoscope-results-" && aws_s3_bucket.results.force_destroy
    error_message = "Unprotected, it is deleted with what it holds."
  }
}

run "protected_bucket" {
  command   = plan
  state_key = "protected"

  module {
    source = "./modules/results"
  }

  variables {
    keep = true
  }

  assert {
    condition     = !aws_s3_bucket.results.force_destroy
    error_message = "Protected, it is not deleted while it holds anything."
  }
}

run "permissions" {
  command = plan

  module {
    source = "./modules/identity"
  }

  assert {
    condition     = keys(aws_iam_instance_profile.host) == ["kairosdb", "loader", "monitoring", "storage"] && aws_iam_role.host["storage"].name == "kairoscope-eu-central-1-storage"
    error_message = "A role for each group of hosts."
  }

  assert {
    condition = alltrue([
      for role in aws_iam_role.host :
      one(jsondecode(role.assume_role_policy).Statement) == { Effect = "Allow", Action = "sts:AssumeRole", Principal = { Service = "ec2.amazonaws.com" } }
    ])
    error_message = "Only instances may take it."
  }

  assert {
    condition = jsondecode(aws_iam_role_policy.backups.policy).Statement == [{
      Effect   = "Allow"
      Action   = ["s3:AbortMultipartUpload", "s3:PutObject"]
      Resource = "arn:aws:s3:::kairoscope-results-1/backups/scheduled/*"
    }]
    error_message = "Storage hosts put backups in, and see and delete nothing."
  }

  assert {
    condition     = length(aws_iam_role_policy.ssm) == 0
    error_message = "No host may do anything else at AWS."
  }
}

run "permissions_within_a_boundary" {
  command = plan

  module {
    source = "./modules/identity"
  }

  variables {
    boundary = "arn:aws:iam::123456789012:policy/kairoscope-hosts"
  }

  assert {
    condition     = alltrue([for role in aws_iam_role.host : role.permissions_boundary == "arn:aws:iam::123456789012:policy/kairoscope-hosts"])
    error_message = "No role may be allowed more than the boundary."
  }
}

run "permissions_for_ssm" {
  command = plan

  module {
    source = "./modules/identity"
  }

  variables {
    ssm = true
  }

  assert {
    condition     = length(aws_iam_role_policy.ssm) == 4 && alltrue([for action in jsondecode(aws_iam_role_policy.ssm["storage"].policy).Statement[0].Action : startswith(action, "ssm") && !strcontains(action, "*") && !strcontains(action, "Parameter")])
    error_message = "Sessions, and no more."
  }
}
